"""Threads for functions that may block: as many as there are calls under way, apart from those that the box itself needs."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar

from pillarbox.telemetry import brief

P = ParamSpec("P")
T = TypeVar("T")

_Call = Callable[[], None]
_IDLE_SECONDS = 60.0
_idle: deque[SimpleQueue[_Call]] = deque()
# A child that is forked has none of its parent's threads.
os.register_at_fork(after_in_child=_idle.clear)


async def in_a_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What a plain function returns or raises; it begins at once, and goes on when nobody waits for it any more.

    No other call waits for its end, and neither does the end of the process.
    """
    answer: Future[T] = Future()
    function = partial(contextvars.copy_context().run, function, *args, **kwargs)
    _begin(partial(_answer, answer, function))
    return await asyncio.wrap_future(answer)


def _begin(call: _Call) -> None:
    try:
        _idle.pop().put(call)
    except IndexError:
        threading.Thread(target=_work, args=[call], name="pillarbox-call", daemon=True).start()


def _work(call: _Call | None) -> None:
    """One call after another, until there has been none for a while."""
    calls: SimpleQueue[_Call] = SimpleQueue()
    while call is not None:
        call()
        call = None  # what it was given and what it found is nobody's any more
        _idle.append(calls)
        call = _next(calls)


def _next(calls: SimpleQueue[_Call]) -> _Call | None:
    try:
        return calls.get(timeout=_IDLE_SECONDS)
    except Empty:
        try:
            _idle.remove(calls)
        except ValueError:
            # Somebody has just chosen this thread.
            return calls.get()
        return None


def _answer(answer: Future[Any], function: Callable[[], Any]) -> None:
    if not answer.set_running_or_notify_cancel():
        return
    try:
        result = function()
    except BaseException as error:
        answer.set_exception(_ordinary(error))
    else:
        answer.set_result(result)


def _ordinary(error: BaseException) -> Exception:
    """The error as one that can be raised in a loop without ending it: a function's `sys.exit()` is not the box's."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    ordinary = RuntimeError(f"The function raised {brief(error)}.")
    ordinary.__cause__ = error
    return ordinary
