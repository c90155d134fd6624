"""An event loop whose time jumps and whose order of callbacks is the seed's choice."""

import asyncio
import heapq
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")

OWNER: ContextVar[str] = ContextVar("owner", default="")
THREAD = "/thread"

_START = datetime(2026, 1, 1, tzinfo=UTC)
_MOST_AT_ONCE = 20_000
# Whatever has not ended by then, long after it was cancelled, never will.
_LONGEST_END = 100_000.0


class NothingLeft(Exception):
    """Everyone waits for someone else."""


class Spinning(Exception):
    """Callbacks run on and on, and time stands still."""


class VirtualLoop(asyncio.BaseEventLoop):
    """Time stands still while anything is ready and then jumps to the next timer.

    Each callback belongs to the owner in whose context it was made. The callbacks of a stopped owner are kept until it goes
    on: that is a wedged process, a suspended one, or (if it never goes on) a killed one.
    """

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, random: Random | None = None, *, spread: int = 1) -> None:
        super().__init__()
        self._random = random
        self._spread = spread
        self._now = 0.0
        self._ran_since_jump = 0
        self._kept: dict[str, list[asyncio.Handle]] = {}
        self.steps: Counter[str] = Counter()
        self.before_step: Callable[[str], None] | None = None

    def time(self) -> float:
        return self._now

    def stop_owner(self, owner: str) -> None:
        self._kept.setdefault(owner, [])

    def resume_owner(self, owner: str) -> None:
        self._ready.extend(self._kept.pop(owner, ()))

    def resume_all(self) -> None:
        for owner in list(self._kept):
            self.resume_owner(owner)

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """From a process's other thread into its loop."""
        inside = context or copy_context()
        inside.run(OWNER.set, inside.get(OWNER, "").removesuffix(THREAD))
        return self.call_soon(callback, *args, context=inside)

    def _run_once(self) -> None:
        if not self._ready:
            self._jump()
        self._ran_since_jump += 1
        if self._ran_since_jump > _MOST_AT_ONCE:
            raise Spinning(f"{_MOST_AT_ONCE} callbacks at {self._now:.6f} s, the next is {self._ready[0]}")
        handle = self._take()
        if handle.cancelled():
            return
        owner = handle._context.get(OWNER, "")  # type: ignore[attr-defined]
        if owner in self._kept:
            self._kept[owner].append(handle)
            return
        self.steps[owner] += 1
        if self.before_step is not None:
            self.before_step(owner)
            if owner in self._kept:
                self._kept[owner].append(handle)
                return
        handle._run()

    def _take(self) -> asyncio.Handle:
        position = self._random.randrange(min(self._spread, len(self._ready))) if self._random else 0
        handle = self._ready[position]
        del self._ready[position]
        return handle

    def _jump(self) -> None:
        while self._scheduled and self._scheduled[0].cancelled():
            heapq.heappop(self._scheduled)._scheduled = False  # type: ignore[attr-defined]
        if not self._scheduled:
            raise NothingLeft(f"nothing will run any more after {self._now:.6f} s")
        self._now = max(self._now, self._scheduled[0].when())
        self._ran_since_jump = 0
        while self._scheduled and self._scheduled[0].when() <= self._now:
            handle = heapq.heappop(self._scheduled)
            handle._scheduled = False  # type: ignore[attr-defined]
            self._ready.append(handle)

    def _write_to_self(self) -> None:
        """Nobody sleeps, so nobody has to be woken."""


class LoopClock:
    """The loop's time as a clock."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now(self) -> datetime:
        return _START + timedelta(seconds=self._loop.time())

    def monotonic(self) -> float:
        return self._loop.time()

    def shown(self, instant: datetime) -> datetime:
        return instant

    def stored(self, instant: datetime) -> datetime:
        return instant


def owned(owner: str) -> Context:
    """A context whose callbacks belong to the owner."""
    context = copy_context()
    context.run(OWNER.set, owner)
    return context


def run_virtually(work: Coroutine[Any, Any, T], *, loop: VirtualLoop | None = None) -> T:
    """Run to the end in virtual time; whatever is still under way then is cancelled."""
    loop = loop or VirtualLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.before_step = None
        rest = asyncio.all_tasks(loop)
        for task in rest:
            task.cancel()
        loop.resume_all()
        if rest:
            loop.run_until_complete(asyncio.wait(rest, timeout=_LONGEST_END))
        loop.close()
