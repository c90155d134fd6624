"""Joining the caller's own transaction: the message exists exactly if that commits."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from pillarbox.outbound.enqueue import Answer, Claim, Order, answer_to
from pillarbox.outbound.enqueue import enqueue as enqueue_set
from pillarbox.outbound.model import Queued
from pillarbox.storage import Database
from pillarbox.storage.foreign import run_on, run_on_blocking


async def enqueue(connection: Any, order: Order, database: Database, *, now: datetime) -> Queued:
    """Run the enqueue on the caller's connection, on the caller's thread; nothing is committed here."""
    (answer,) = await run_on(connection, lambda: enqueue_set([order], now), database)
    if isinstance(answer, Exception):
        raise answer
    return answer


def enqueue_blocking(connection: Any, order: Order, database: Database, *, now: datetime) -> Queued:
    """The same without an event loop."""
    (answer,) = run_on_blocking(connection, lambda: enqueue_set([order], now), database)
    if isinstance(answer, Exception):
        raise answer
    return answer


async def look_up(connection: Any, claim: Claim, database: Database) -> Answer | None:
    """The answer that a key has had, in the caller's transaction or before it."""
    return await run_on(connection, partial(answer_to, claim), database)


def look_up_blocking(connection: Any, claim: Claim, database: Database) -> Answer | None:
    """The same without an event loop."""
    return run_on_blocking(connection, partial(answer_to, claim), database)
