"""The thread in which the box of a synchronous program lives, and how other threads ask something of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future, wait
from contextlib import AbstractAsyncContextManager, suppress
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

from pillarbox.box import Pillarbox
from pillarbox.errors import PillarboxError, Unavailable
from pillarbox.storage.owner import Owner
from pillarbox.telemetry import brief, logger

P = ParamSpec("P")
T = TypeVar("T")

Opening = Callable[[], AbstractAsyncContextManager[Pillarbox]]

log = logger(__name__)

_STRETCH_SECONDS = 0.5

_called_by: ContextVar[BoxThread | None] = ContextVar("called_by", default=None)
"""The box that called the target or listener which is running here."""


class BoxThread:
    """An event loop of its own with one box in it; any thread of this process may call, each call waits for its answer."""

    def __init__(self, opening: Opening, *, workers: bool, timeout: float | None) -> None:
        self._owner = Owner()
        self._works = workers
        self._timeout = timeout
        self._opened: Future[tuple[Pillarbox, asyncio.AbstractEventLoop]] = Future()
        self._closing = asyncio.Event()
        self._thread = threading.Thread(
            target=asyncio.run, args=[self._live(opening, workers=workers)], name="pillarbox", daemon=True
        )
        self._thread.start()
        try:
            self.box, self._loop = self._opened.result()
        except BaseException:
            self._opened.cancel()
            raise

    def call(self, function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """What an async function of the box answers; `Unavailable` where that takes longer than the timeout."""
        return self._wait(self._begin(function(*args, **kwargs)), self._timeout)

    def call_patiently(self, function: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """The same for what takes its own time."""
        return self._wait(self._begin(function(*args, **kwargs)), None)

    def run(self) -> None:
        """Let the box work until it is stopped; a Ctrl-C stops it, and is raised once what was under way has ended."""
        if self._works:
            raise PillarboxError(
                "This box was opened with its workers, which run already; open it without them to run it."
            )
        running = self._begin(self._run())
        try:
            _result(running)
        except KeyboardInterrupt:
            self.tell(self.box.stop)
            self._wait(running, None)
            raise
        except CancelledError:
            raise _closed() from None

    def tell(self, function: Callable[[], object]) -> None:
        """Have a plain function called in the box's thread, without waiting for it."""
        self._owner.require()
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)

    def close(self) -> None:
        """End everything and wait for that, unless the box waits for the caller; in a forked child there is nothing to end."""
        if self._owner.is_here:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._closing.set)
            if _called_by.get() is not self:
                self._thread.join()

    async def _run(self) -> None:
        _called_by.set(self)
        await self.box.run()

    async def _live(self, opening: Opening, *, workers: bool) -> None:
        _called_by.set(self)
        try:
            async with opening() as box:
                if not self._opened.set_running_or_notify_cancel():
                    return
                self._opened.set_result((box, asyncio.get_running_loop()))
                running = asyncio.create_task(_work(box)) if workers else None
                await self._closing.wait()
                box.stop()
                if running is not None:
                    await running
        except BaseException as error:
            if self._opened.done():
                log.error("the box was not closed as it should be", error=brief(error))
            else:
                self._opened.set_exception(error)

    def _begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        try:
            self._owner.require()
            if threading.current_thread() is self._thread:
                raise PillarboxError(
                    "This is the box's own thread, which cannot wait for itself; make the function a plain one, not async."
                )
            # The callback is given a copy of the caller's context, so a trace goes on.
            return asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()
            raise _closed() from None
        except BaseException:
            work.close()
            raise

    def _wait(self, answer: Future[T], timeout: float | None) -> T:
        try:
            return _result(answer) if timeout is None else answer.result(timeout)
        except CancelledError:
            raise _closed() from None
        except TimeoutError:
            if answer.done():
                raise
            answer.cancel()
            raise Unavailable(
                f"The box did not answer within {timeout:g} s; what was asked may have been done all the same."
            ) from None
        except BaseException:
            answer.cancel()
            raise


async def _work(box: Pillarbox) -> None:
    try:
        await box.run()
    except Exception as error:
        log.error("the workers of this box have ended; open it again", error=brief(error))


def _result(answer: Future[T]) -> T:
    """Waited for in stretches: a signal that comes just before a wait begins would be heard only at its end."""
    while not wait([answer], _STRETCH_SECONDS).done:
        pass
    return answer.result()


def _closed() -> Unavailable:
    return Unavailable("This box is closed; open another one.")
