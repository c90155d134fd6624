"""The target that is a function of the program that Pillarbox is a part of."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import fields
from datetime import datetime
from functools import partial
from typing import Any, get_args

from pillarbox.engine import Delivered, Outcome, Retry
from pillarbox.engine.threads import in_a_thread
from pillarbox.inbound.model import InboundMessage

Deliver = Callable[[InboundMessage], Awaitable[Outcome | None] | Outcome | None]
Call = Callable[[InboundMessage], Awaitable[Any]]

_OUTCOMES = get_args(Outcome)


def callable_of(function: Deliver) -> Call:
    """The function as it is called: one that is not async may block, so it gets a thread."""
    called: Any = function
    waits = inspect.iscoroutinefunction(called) or inspect.iscoroutinefunction(getattr(called, "__call__", None))  # noqa: B004
    return called if waits else partial(in_a_thread, called)


async def deliver_call(call: Call, message: InboundMessage) -> Outcome:
    """Call the function and judge its answer."""
    answer = await call(message)
    if inspect.isawaitable(answer):
        answer = await answer
    return outcome_of(answer)


def outcome_of(answer: Any) -> Outcome:
    """An outcome that can be recorded is taken as it is; whatever else it answered, it did not raise."""
    if isinstance(answer, type) and issubclass(answer, _OUTCOMES) and not issubclass(answer, Delivered):
        return Retry(f"The function answered the class {answer.__name__} instead of one of that class.")
    if not isinstance(answer, _OUTCOMES):
        return Delivered()
    outcome: Outcome = answer
    for name in (field.name for field in fields(outcome) if field.name in _RULES):
        fits, what = _RULES[name]
        if not fits(getattr(outcome, name)):
            return Retry(f"The function answered {type(outcome).__name__} with a value of `{name}` that is not {what}.")
    return outcome


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_truth(value: object) -> bool:
    return isinstance(value, bool)


def _is_time(value: object) -> bool:
    """Whether it is the same moment for everybody, if one is given at all, and far from the ends of the calendar."""
    return value is None or (isinstance(value, datetime) and value.utcoffset() is not None and 1 < value.year < 9999)


_RULES: dict[str, tuple[Callable[[object], bool], str]] = {
    "error": (_is_text, "text"),
    "reason": (_is_text, "text"),
    "at": (_is_time, "a datetime with a timezone, before the year 9999"),
    "not_before": (_is_time, "a datetime with a timezone, before the year 9999"),
    "counts": (_is_truth, "True or False"),
}
