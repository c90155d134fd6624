"""Joining the caller's own transaction: the message exists exactly if that commits."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pillarbox.outbound.enqueue import Order
from pillarbox.outbound.enqueue import enqueue as enqueue_set
from pillarbox.outbound.model import Queued
from pillarbox.storage import Database
from pillarbox.storage.foreign import run_on


async def enqueue(connection: Any, order: Order, database: Database, *, now: datetime) -> Queued:
    """Run the enqueue on the caller's connection, on the caller's thread; nothing is committed here."""
    (answer,) = await run_on(connection, lambda: enqueue_set([order], now), database)
    if isinstance(answer, Exception):
        raise answer
    return answer
