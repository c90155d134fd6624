"""The inbound pipe, without awaiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pillarbox.inbound import Inbound as AsyncInbound
from pillarbox.inbound.model import Enqueued, InboundMessage, InboundStatus, MessageType, QueueState, Status
from pillarbox.sync.thread import BoxThread

Deliver = Callable[[InboundMessage], Any]
DeliverT = TypeVar("DeliverT", bound=Deliver)


class Inbound:
    """Takes messages in, brings them to their sessions, and lets operators look and act."""

    def __init__(self, thread: BoxThread, pipe: AsyncInbound) -> None:
        self._thread = thread
        self._pipe = pipe

    def enqueue(
        self,
        *,
        session_id: str,
        origin: str,
        content: str = "",
        message_type: MessageType = "text",
        payload: Any = None,
        actor_id: str | None = None,
        actor_name: str | None = None,
        actor_avatar_url: str | None = None,
        source_message_id: str | None = None,
        source_channel_id: str | None = None,
    ) -> Enqueued:
        """Store one message; when this returns it is on disk, and a source id that was used before made no second one."""
        return self._thread.call(
            self._pipe.enqueue,
            session_id=session_id,
            origin=origin,
            content=content,
            message_type=message_type,
            payload=payload,
            actor_id=actor_id,
            actor_name=actor_name,
            actor_avatar_url=actor_avatar_url,
            source_message_id=source_message_id,
            source_channel_id=source_channel_id,
        )

    def target(self, name: str) -> Callable[[DeliverT], DeliverT]:
        """Decorate a function to make it the target `{"kind": "python", "name": name}`; each call has a thread to itself."""

        def register(deliver: DeliverT) -> DeliverT:
            async def registering() -> None:
                self._pipe.target(name)(deliver)

            self._thread.call(registering)
            return deliver

        return register

    def get(self, message_id: int) -> InboundMessage:
        """The one of that id; raises `NotFound` where there is none."""
        return self._thread.call(self._pipe.get, message_id)

    def list(
        self, *, session_id: str | None = None, status: Status | None = None, limit: int = 100, after: int = 0
    ) -> list[InboundMessage]:
        """Messages by id, or by seq within one session, from the one after `after`."""
        return self._thread.call(self._pipe.list, session_id=session_id, status=status, limit=limit, after=after)

    def queue(self, session_id: str) -> QueueState:
        """What waits for one session, and what it waits for."""
        return self._thread.call(self._pipe.queue, session_id)

    def status(self) -> InboundStatus:
        """What waits in all."""
        return self._thread.call(self._pipe.status)

    def retry(self, message_id: int) -> InboundMessage:
        """Try a waiting message now; one in flight is left alone, one behind others keeps its place."""
        return self._thread.call(self._pipe.retry, message_id)

    def expire(self, message_id: int) -> InboundMessage:
        """Give a message up, so that the next of its session can go."""
        return self._thread.call(self._pipe.expire, message_id)
