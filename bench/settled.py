"""How far our workers have come, as the tables say: what has begun only is not done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import apsw
import psycopg

_ANY_OPEN = {
    "inbound": "SELECT 1 FROM inbound_strand WHERE head_seq IS NOT NULL LIMIT 1",
    "hooks": "SELECT 1 FROM hook_strand WHERE head_seq IS NOT NULL LIMIT 1",
    "outbound": "SELECT 1 FROM message_queue LIMIT 1",
}
_SETTLED = {
    "inbound": "SELECT count(*) FROM inbound_queue WHERE status = 'delivered'",
    "hooks": "SELECT count(*) FROM hook_outbox WHERE status = 'delivered'",
    "outbound": "SELECT count(*) FROM message_history WHERE status = 'sent'",
}
_GLANCE = 0.002
Ask = Callable[[str], list[tuple[Any, ...]]]


def settled(url: str, pipe: str, count: int, *, waiting: float) -> tuple[int, float]:
    """How many of these rows are settled, and when they were: all of them, or as many as there are when that takes longer."""
    deadline = time.monotonic() + waiting
    with _asking(url) as ask:
        while (now := time.monotonic()) < deadline:
            if not ask(_ANY_OPEN[pipe]):
                return count, now
            time.sleep(_GLANCE)
        return int(ask(_SETTLED[pipe])[0][0]), now


@contextmanager
def _asking(url: str) -> Iterator[Ask]:
    if url.startswith("sqlite"):
        with closing(apsw.Connection(url.removeprefix("sqlite:///"), flags=apsw.SQLITE_OPEN_READONLY)) as file:
            file.set_busy_timeout(10_000)
            yield lambda statement: list(file.execute(statement))
    else:
        with psycopg.connect(url, autocommit=True) as server:
            yield lambda statement: server.execute(statement.encode()).fetchall()
