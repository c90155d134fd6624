"""Telling those who listen: callables of this process, and one URL."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from pillarbox.engine import Delivered, Failed, Outcome, Retry
from pillarbox.engine.threads import in_a_thread
from pillarbox.errors import InvalidInput, PermanentError
from pillarbox.hooks.model import HookEvent
from pillarbox.posting import Poster, Unreached
from pillarbox.telemetry import brief
from pillarbox.text import check_name

Listen = Callable[[HookEvent], Any]
ALL = "*"
LONGEST_TYPE = 64
_DELIVERED = Delivered()


class _Listener(NamedTuple):
    listen: Listen
    waits: bool
    """Whether it is async; one that is not may block, so it gets a thread."""


class Listeners:
    """Each event goes to every listener of its type, in the order they came, and then to the URL."""

    def __init__(self, forward_url: str | None) -> None:
        self._by_type: dict[str, list[_Listener]] = defaultdict(list)
        self._forward_url = forward_url
        self._poster = Poster()

    def add(self, event_types: tuple[str, ...], listen: Listen) -> None:
        """Let a callable hear of these types, or of all."""
        if not callable(listen):
            raise InvalidInput("listener", "must be a callable that takes an event.")
        waits = inspect.iscoroutinefunction(listen) or inspect.iscoroutinefunction(getattr(listen, "__call__", None))  # noqa: B004
        for event_type in event_types or (ALL,):
            self._by_type[check_name("event_type", event_type, most=LONGEST_TYPE)].append(_Listener(listen, waits))

    async def tell(self, event: HookEvent) -> Outcome:
        """Tell everybody once; what one of them raises is this attempt's end, and the next tells all of them again."""
        for listener in (*self._by_type.get(event.event_type, ()), *self._by_type.get(ALL, ())):
            if listener.waits:
                await listener.listen(_copy(event))
            else:
                await _call(listener.listen, _copy(event))
        return await self._forward(event) if self._forward_url else _DELIVERED

    async def close(self) -> None:
        await self._poster.close()

    async def _forward(self, event: HookEvent) -> Outcome:
        assert self._forward_url is not None
        headers = {"Pillarbox-Event-Id": str(event.id), "Pillarbox-Attempt": str(event.attempt)}
        try:
            async with self._poster.post(self._forward_url, headers, msgspec.json.encode(event)) as reply:
                return _judged(reply.status)
        except Unreached as trouble:
            return Retry(str(trouble))


async def _call(listen: Listen, event: HookEvent) -> None:
    answer = await in_a_thread(listen, event)
    if inspect.isawaitable(answer):
        await answer


def _copy(event: HookEvent) -> HookEvent:
    """What one listener does to its event is nobody else's."""
    return HookEvent(event.id, event.session_id, event.event_type, _own(event.payload), event.attempt)


def _own(value: Any) -> Any:
    """A copy of what was read from JSON."""
    if isinstance(value, dict):
        return {key: _own(item) if isinstance(item, (dict, list)) else item for key, item in value.items()}
    return [_own(item) for item in value] if isinstance(value, list) else value


def judge(error: Exception) -> Outcome:
    """A listener may say that trying again would not help; anything else it raises is tried again."""
    return Failed(brief(error)) if isinstance(error, PermanentError) else Retry(brief(error))


def _judged(status: int) -> Outcome:
    if 200 <= status < 300:
        return Delivered()
    said = f"The target answered HTTP {status}."
    return Failed(said) if status == 422 else Retry(said)
