"""LISTEN/NOTIFY between nodes: names at most the pipes that have new work, comes after the commit, may be lost without harm."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from selectors import EVENT_READ, DefaultSelector
from time import monotonic
from typing import Any
from uuid import uuid4

import psycopg
from psycopg.pq.abc import PGconn

from pillarbox.storage.database import News
from pillarbox.storage.postgres_url import PostgresAddress
from pillarbox.storage.postgres_wire import Said

_CHANNEL = "pillarbox"
_NOTIFY = b"SELECT pg_notify(%(channel)s, %(said)s)"
# What names nobody's pipe, and nodes that know nothing of it take for the name of one.
_FROM = "from:"
_ASIDE_SECONDS = 0.02
_BARRED_SECONDS = 30.0
_LISTEN = f"LISTEN {_CHANNEL}".encode()
_QUIET_SECONDS = 0.005
_PAUSE_SECONDS = 0.5
_LONGEST_JOIN = 2.0


class PostgresBell:
    """Rings other nodes, at most once in a few milliseconds, and hears them ring."""

    def __init__(self, address: PostgresAddress, options: dict[str, Any]) -> None:
        self._address = address
        self._options = options
        self._wanted = threading.Event()
        self._news: set[str] = set()
        self._adding = threading.Lock()
        self._closed = threading.Event()
        self._threads: list[threading.Thread] = []
        # Closing one end wakes the thread that waits for the other and for notifications.
        self._waker, self.woken = socket.socketpair()
        # The backend that rings for us: what we say ourselves is no news.
        self.ringer = 0
        self.name = f"{_FROM}{uuid4().hex}"
        self._ringing = False
        self._rung = 0.0

    def aside(self, pipe: str) -> Said | None:
        """A ring that whoever commits something may send behind it, if nothing was rung lately."""
        now = monotonic()
        if now - self._rung < _ASIDE_SECONDS:
            return None
        self._rung = now
        return _NOTIFY, {"channel": _CHANNEL, "said": f"{pipe} {self.name}"}

    @property
    def is_barred(self) -> bool:
        return self._rung > monotonic()

    def bar(self) -> None:
        """The last ring that went out behind a commit may have come to nothing: none does for a while."""
        self._rung = monotonic() + _BARRED_SECONDS

    def ring(self, pipe: str) -> None:
        with self._adding:
            self._news.add(pipe)
        if not self._ringing:
            self._ringing = True
            self._start(self._ring_on_demand)
        self._wanted.set()

    def watch(self, rung: Callable[[News], None]) -> None:
        self._start(self._listen, rung)

    def close(self) -> None:
        self._closed.set()
        self._wanted.set()
        self._waker.close()
        for thread in self._threads:
            # A server that has stopped answering may keep one for ever; it is a daemon and may stay behind.
            thread.join(_LONGEST_JOIN)
        self.woken.close()

    def _start(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, name="pillarbox-bell", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _ring_on_demand(self) -> None:
        with _Reconnecting(self) as connection:
            while not self._closed.is_set():
                self._wanted.wait()
                self._wanted.clear()
                with self._adding:
                    news, self._news = self._news, set()
                connection.run(_NOTIFY, {"channel": _CHANNEL, "said": _said(news)})
                self.ringer = connection.pid
                self._rung = max(self._rung, monotonic())
                self._closed.wait(_QUIET_SECONDS)

    def _listen(self, rung: Callable[[News], None]) -> None:
        with _Reconnecting(self) as connection:
            while not self._closed.is_set():
                # Whatever was said before somebody listened.
                heard: News | None = News() if connection.run(_LISTEN) else None
                while heard is not None and not self._closed.is_set():
                    # A listener that went away, its event loop closed, must not end the listening of the others.
                    with suppress(Exception):
                        rung(heard)
                    heard = connection.heard()

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._address.conninfo, **self._options)

    def pause(self) -> None:
        self._closed.wait(_PAUSE_SECONDS)

    @property
    def closed(self) -> bool:
        return self._closed.is_set()


class _Reconnecting:
    """One connection that is made again whenever it breaks."""

    def __init__(self, bell: PostgresBell) -> None:
        self.pid = 0
        self._bell = bell
        self._connection: psycopg.Connection[Any] | None = None

    def __enter__(self) -> _Reconnecting:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._connection is not None:
            self._connection.close()

    def run(self, sql: bytes, params: dict[str, str] | None = None) -> bool:
        try:
            if self._connection is None or self._connection.broken:
                self._connection = self._bell.connect()
            self._connection.execute(sql, params)
            self.pid = self._connection.info.backend_pid
        except psycopg.Error:
            self._forget()
            return False
        return True

    def heard(self) -> News | None:
        """Wait for notifications; None when the connection is gone."""
        assert self._connection is not None
        try:
            with DefaultSelector() as waiting:
                waiting.register(self._bell.woken, EVENT_READ)
                waiting.register(self._connection.fileno(), EVENT_READ)
                while not self._bell.closed:
                    waiting.select()
                    if rings := self._rings(self._connection.pgconn):
                        return _told(rings)
        except psycopg.Error:
            self._forget()
        return None

    def _rings(self, server: PGconn) -> list[str]:
        """What others have said; asked of the connection itself, for the driver takes as long for it as a claim."""
        server.consume_input()
        rings = []
        while ring := server.notifies():
            said = ring.extra.decode()
            if ring.be_pid != self._bell.ringer and self._bell.name not in said:
                rings.append(said)
        return rings

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._bell.pause()


def _said(news: set[str]) -> str:
    """The pipes that have new work; nothing where anything may have changed."""
    return "" if "" in news else " ".join(sorted(news))


def _told(rings: Sequence[str]) -> News:
    if "" in rings:
        return News()
    names = frozenset(name for ring in rings for name in ring.split() if not name.startswith(_FROM))
    return News(names, only_work=True)
