"""One strand being delivered."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Generic

from pillarbox.engine.lease import RowT, Strand


class Flight(Generic[RowT]):
    """A strand, the task that delivers it, and whether its lease was lost on the way."""

    def __init__(self, strand: Strand[RowT], *, deadline: float, lease_ends: float) -> None:
        self.strand = strand
        self.deadline = deadline
        self.lease_ends = lease_ends
        self.called_off = False
        self.lost = False
        self._late = False
        self.task: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    def is_lost(self, now: float) -> bool:
        """Whether others may hold it at this (monotonic) time."""
        return self.lost or now >= self.lease_ends

    def lose(self) -> None:
        """Called from the renewing thread: stop delivering what others may hold by now."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self.lose_now)

    def lose_now(self) -> None:
        if not self.lost:
            self.lost = True
            self.call_off()

    def call_off(self) -> None:
        """Stop delivering, or never begin; what has ended has no task any more, which may be another's by now."""
        self.called_off = True
        if self.task is not None:
            self.task.cancel()

    def be_late(self) -> None:
        """Stop delivering what took too long; its task may go on with something else."""
        self._late = True
        if self.task is not None:
            self.task.cancel()

    def was_late(self) -> bool:
        """Whether it was stopped because it took too long; asked once, after which its task is as it was before."""
        late, self._late = self._late, False
        if late and self.task is not None:
            self.task.uncancel()
        return late
