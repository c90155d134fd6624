"""One strand being delivered."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import ContextVar
from typing import Generic

from pillarbox.engine.lease import RowT, Strand

# By whose delivery this was called: known in its own task, and in the tasks and threads that it starts.
_delivery: ContextVar[object] = ContextVar("delivery", default=None)


class Flight(Generic[RowT]):
    """A strand, the task that delivers it, and whether its lease was lost on the way."""

    def __init__(self, strand: Strand[RowT], *, deadline: float, lease_ends: float) -> None:
        self.strand = strand
        self.deadline = deadline
        self.lease_ends = lease_ends
        self.called_off = False
        self.lost = False
        self.dropped_itself = False
        self._late = False
        self.task: asyncio.Task[None] | None = None
        self.loop = asyncio.get_running_loop()
        # Not the flight itself: what is started in a delivery may live long, and need not keep its rows.
        self._mark = object()

    def take_off(self) -> None:
        """Called by the task that delivers it."""
        self.task = asyncio.current_task()
        _delivery.set(self._mark)

    @property
    def is_at_work(self) -> bool:
        """Whether its task goes on by itself; one that is left over when its loop has ended is only taken apart."""
        return asyncio.current_task(self.loop) is self.task

    def is_lost(self, now: float) -> bool:
        """Whether others may hold it at this (monotonic) time."""
        return self.lost or now >= self.lease_ends

    def lose(self) -> None:
        """Called from the renewing thread: stop delivering what others may hold by now."""
        with suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(self.lose_now)

    def lose_now(self) -> None:
        if not self.lost:
            self.lost = True
            self.call_off()

    def drop(self) -> None:
        """Its hold was taken away: stop delivering, unless the delivery did that itself, which then goes on to its end."""
        if _delivery.get() is self._mark:
            self.lost = self.dropped_itself = True
        else:
            self.lose_now()

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
