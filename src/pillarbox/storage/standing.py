"""A transaction that stands by until another process brings work for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Generic, TypeVar

from pillarbox.storage.database import Work

T = TypeVar("T")


class Standing(Generic[T]):
    """Run once, by the thread that hears of the work, or withdrawn before that; never both."""

    def __init__(self, work: Work[T], *, ready: Callable[[], None], look: Work[T | None] | None = None) -> None:
        self.work = work
        self.look = look
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self.loop.create_future()
        self.future.add_done_callback(lambda _: ready())
        self._deciding = threading.Lock()
        self._begun = self._withdrawn = False

    @property
    def is_open(self) -> bool:
        """Whether it may still be begun."""
        return not (self._begun or self._withdrawn)

    def begin(self) -> bool:
        """Whether to run it, now: nobody else will, and it can no longer be withdrawn."""
        with self._deciding:
            # Nobody would deliver what is claimed for a loop that was closed.
            if self._begun or self._withdrawn or self.loop.is_closed():
                return False
            self._begun = True
            return True

    def withdraw(self) -> asyncio.Future[T] | None:
        """None if it was not begun and never will be; otherwise what comes of it."""
        with self._deciding:
            self._withdrawn = True
            return self.future if self._begun else None

    def run(self, run: Callable[[Work[T]], T]) -> None:
        """Run it, once begun, and tell who waits; from any thread."""
        tell: Callable[[], None]
        try:
            tell = partial(self.future.set_result, run(self.work))
        except Exception as error:
            tell = partial(self.future.set_exception, error)
        # A loop that was closed meanwhile has nobody left who waits.
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._tell, tell)

    def _tell(self, tell: Callable[[], None]) -> None:
        if not self.future.done():
            tell()


class Stand:
    """Who stands by for which pipe, at most one each."""

    def __init__(self) -> None:
        self._standing: dict[str, Standing[object]] = {}

    def put(self, pipe: str, standing: Standing[T]) -> Standing[T]:
        self._standing[pipe] = standing  # type: ignore[assignment]
        return standing

    def looking(self) -> list[Standing[object]]:
        """Those that may find what was brought without writing."""
        return [standing for standing in tuple(self._standing.values()) if standing.look and standing.is_open]

    def take(self, pipe: str) -> Standing[object] | None:
        return self._standing.pop(pipe, None)
