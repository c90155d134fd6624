"""The hooks pipe, without awaiting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pillarbox.hooks.intake import Spooled
from pillarbox.hooks.listeners import Listen
from pillarbox.hooks.model import AgentState, HookEvent, HookRecord, HooksStatus, Status, Stored
from pillarbox.hooks.pipe import Hooks as AsyncHooks
from pillarbox.sync.following import one_by_one
from pillarbox.sync.thread import BoxThread

ListenT = TypeVar("ListenT", bound=Listen)


class Hooks:
    """Takes agents' events in and tells whoever listens."""

    def __init__(self, thread: BoxThread, pipe: AsyncHooks) -> None:
        self._thread = thread
        self._pipe = pipe

    def on(self, *event_types: str) -> Callable[[ListenT], ListenT]:
        """Decorate a function to be given every event of these types, or of all, in a thread; it may be given one twice.

        What it raises makes the event be tried again, and its session's later events wait; `PermanentError` closes the event.
        """

        def register(listen: ListenT) -> ListenT:
            async def registering() -> None:
                self._pipe.on(*event_types)(listen)

            self._thread.call(registering)
            return listen

        return register

    def post(self, session_id: str, event_type: str, payload: dict[str, Any] | None = None) -> Stored:
        """Store one event; when this returns it is on disk."""
        return self._thread.call(self._pipe.post, session_id, event_type, payload)

    @contextmanager
    def follow(self, last_id: int | None = None) -> Iterator[Iterator[HookEvent | None]]:
        """Delivered events as they come, from now on or behind one seen before; None now and then while there is none."""
        with one_by_one(self._thread, self._pipe.follow(last_id)) as events:
            yield events

    def get(self, event_id: int) -> HookRecord:
        """The one of that id; raises `NotFound` where there is none."""
        return self._thread.call(self._pipe.get, event_id)

    def list(
        self, *, session_id: str | None = None, status: Status | None = None, limit: int = 100, after: int = 0
    ) -> list[HookRecord]:
        """Events in the order they came, from the one after `after`: an id, or a `seq` within one session."""
        return self._thread.call(self._pipe.list, session_id=session_id, status=status, limit=limit, after=after)

    def status(self) -> HooksStatus:
        """What waits in all, and how old the oldest is."""
        return self._thread.call(self._pipe.status)

    def spooled(self) -> Spooled:
        """What receivers of this machine could not store yet."""
        return self._thread.call(self._pipe.spooled)

    def agent_state(self, session_id: str) -> AgentState | None:
        """What the session's events have told about its agent."""
        return self._thread.call(self._pipe.agent_state, session_id)

    def retry(self, event_id: int) -> HookRecord:
        """Try a waiting event now; a dead one goes again, behind what its session has waiting."""
        return self._thread.call(self._pipe.retry, event_id)
