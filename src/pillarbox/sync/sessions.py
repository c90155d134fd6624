"""Sessions, without awaiting."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pillarbox.sessions import Session
from pillarbox.sessions import Sessions as AsyncSessions
from pillarbox.sessions.model import Channel, Lifecycle, SessionChange
from pillarbox.sync.thread import BoxThread


class Sessions:
    """The sessions of one database."""

    def __init__(self, thread: BoxThread, sessions: AsyncSessions) -> None:
        self._thread = thread
        self._sessions = sessions

    def open(
        self,
        *,
        target: dict[str, Any],
        session_id: str | None = None,
        title: str | None = None,
        lifecycle_status: Lifecycle = "active",
        node: str | None = None,
        agent: str | None = None,
        native_session_id: str | None = None,
        channels: Iterable[Channel] = (),
    ) -> Session:
        """Make a session, ready for messages when this returns."""
        return self._thread.call(
            self._sessions.open,
            target=target,
            session_id=session_id,
            title=title,
            lifecycle_status=lifecycle_status,
            node=node,
            agent=agent,
            native_session_id=native_session_id,
            channels=channels,
        )

    def get(self, session_id: str) -> Session:
        """The one of that id; raises `NotFound` where there is none."""
        return self._thread.call(self._sessions.get, session_id)

    def list(self, *, lifecycle_status: Lifecycle | None = None, limit: int = 100, after: str = "") -> list[Session]:
        """Sessions in the order of their ids, from the one after `after`."""
        return self._thread.call(self._sessions.list, lifecycle_status=lifecycle_status, limit=limit, after=after)

    def change(self, session_id: str, change: SessionChange) -> Session:
        """Change what is set; `lifecycle_status: closed` closes."""
        return self._thread.call(self._sessions.change, session_id, change)

    def close(self, session_id: str) -> int:
        """End a session: nothing more is delivered to it. Answers how many waiting messages expired."""
        return self._thread.call(self._sessions.close, session_id)

    def find_by_channel(self, origin: str, channel_id: str) -> str | None:
        """The session that an outside conversation belongs to."""
        return self._thread.call(self._sessions.find_by_channel, origin, channel_id)
