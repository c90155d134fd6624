"""Keeping leases, from a thread, so that a busy loop does not lose them; and never past a delivery's own deadline, so
that a wedged one does."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Generic, Protocol

from pillarbox.clock import Clock
from pillarbox.engine.lease import Lease, RowT, Strand
from pillarbox.telemetry import logger

log = logger(__name__)

_LEAST_GAP = 0.1
_LONGEST_BLINDNESS = 5.0


class Held(Protocol[RowT]):
    """A strand in flight: until when (monotonic) it may be renewed, and what to do when its lease is lost."""

    strand: Strand[RowT]
    deadline: float
    lease_ends: float

    def lose(self) -> None: ...


Renew = Callable[[Sequence[Strand[RowT]], Lease, datetime], Sequence[Strand[RowT]]]
Look = Callable[[Sequence[Strand[RowT]]], Sequence[Strand[RowT]]]


class Renewal(Generic[RowT]):
    """Renews everything in flight each third of a lease, and looks in between whether anything was taken away."""

    def __init__(self, renew: Renew[RowT], look: Look[RowT], lease: Lease, clock: Clock) -> None:
        self._renew = renew
        self._look = look
        self._lease = lease
        self._clock = clock
        self._held: dict[str, Held[RowT]] = {}
        self._wake = threading.Condition()
        self._worker: threading.Thread | None = None
        self._poked = False
        self._poked_at = -math.inf
        self._next_renewal = clock.monotonic() + self.interval

    @property
    def interval(self) -> float:
        return self._lease.length.total_seconds() / 3

    def add(self, held: Held[RowT]) -> None:
        self._held[held.strand.key] = held
        if self._poked:
            with self._wake:
                self._wake.notify()

    def remove(self, held: Held[RowT]) -> None:
        if self._held.get(held.strand.key) is held:
            del self._held[held.strand.key]

    def begun(self, *, since: float) -> None:
        """What was asked for then is in flight: renew it if it waited long, and look at it if a poke came too early for it."""
        if self._clock.monotonic() - since > self.interval:
            self.hurry()
        elif self._poked_at >= since:
            self._look_soon()

    def poke(self) -> None:
        """Look now whether everything is still held: something may have been taken away."""
        self._poked_at = self._clock.monotonic()
        self._look_soon()

    def _look_soon(self) -> None:
        with self._wake:
            self._poked = True
            if self._held:
                self._wake.notify()

    def hurry(self) -> None:
        """Renew now: what has just been claimed has waited for it, and has little left."""
        with self._wake:
            self._next_renewal = self._clock.monotonic()
            self._poked = True
            self._wake.notify()

    def look(self) -> None:
        """Tell whatever is no longer held so, without writing: a commit would be heard, and poke others in turn."""
        held_here = list(self._held.values())
        if not held_here:
            return
        try:
            kept = {(strand.key, strand.token) for strand in self._look([held.strand for held in held_here])}
        except Exception as error:
            log.warning("leases could not be looked at; the next renewal will", error=type(error).__name__)
            return
        for held in held_here:
            if (held.strand.key, held.strand.token) not in kept:
                held.lose()

    def tick(self) -> None:
        """Renew what may be renewed; whatever is no longer held is told so."""
        began = self._clock.monotonic()
        self._next_renewal = began + self.interval
        everything = list(self._held.values())
        candidates = [held for held in everything if began < held.deadline]
        tokens = self._renewed(candidates)
        for held in everything:
            if tokens is not None and held in candidates:
                if tokens.get(held.strand.key) == held.strand.token:
                    held.lease_ends = began + self._lease.length.total_seconds()
                else:
                    held.lose()
            elif self._clock.monotonic() >= held.lease_ends:
                held.lose()

    def _renewed(self, candidates: Sequence[Held[RowT]]) -> dict[str, int] | None:
        """The tokens of what is still held; None when the store could not say."""
        if not candidates:
            return {}
        try:
            kept = self._renew([held.strand for held in candidates], self._lease, self._clock.now())
        except Exception as error:
            log.warning("leases could not be renewed; they are tried again shortly", error=type(error).__name__)
            return None
        return {strand.key: strand.token for strand in kept}

    @contextmanager
    def thread(self) -> Iterator[None]:
        """Tick from a thread of its own for as long as the block runs."""
        self._worker = threading.Thread(target=self._run, name="pillarbox-renew", daemon=True)
        self._worker.start()
        try:
            yield
        finally:
            with self._wake:
                self._worker = None
                self._wake.notify_all()

    def _run(self) -> None:
        while self._called():
            if self._clock.monotonic() >= self._next_renewal:
                self.tick()
            else:
                self.look()
            with self._wake:
                self._wake.wait_for(self._is_over, _LEAST_GAP)

    def _called(self) -> bool:
        """Wait for the next time, or a poke; whether to go on."""
        with self._wake:
            left = min(max(0.0, self._next_renewal - self._clock.monotonic()), _LONGEST_BLINDNESS)
            self._wake.wait_for(lambda: self._poked or self._is_over(), left)
            if self._is_over():
                return False
            self._poked = False
            return True

    def _is_over(self) -> bool:
        """Whether this thread's block has ended, though another one may have begun since."""
        return self._worker is not threading.current_thread()
