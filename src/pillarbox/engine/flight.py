"""One strand being delivered."""

from __future__ import annotations

import asyncio
from typing import Generic

from pillarbox.engine.lease import RowT, Strand


class Flight(Generic[RowT]):
    """A strand, the task that delivers it, and whether its lease was lost on the way."""

    def __init__(self, strand: Strand[RowT], *, deadline: float) -> None:
        self.strand = strand
        self.deadline = deadline
        self.lease_ends = deadline
        self.lost = False
        self.task: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    def lose(self) -> None:
        """Called from the renewing thread: stop delivering what others may hold by now."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.lose_now)

    def lose_now(self) -> None:
        self.lost = True
        if self.task is not None:
            self.task.cancel()
