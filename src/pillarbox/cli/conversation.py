"""What is said in a session, as it comes: messages, what becomes of them, and the agent's words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Literal

import msgspec

from pillarbox.cli.output import span
from pillarbox.text import printable

if TYPE_CHECKING:
    from pillarbox.box import Pillarbox
    from pillarbox.hooks.model import AgentState
    from pillarbox.inbound import InboundMessage, QueueState

ORIGIN = "terminal"
SHOWN_AT_FIRST = 20
_AT_ONCE = 100
_MOST_WATCHED = 200
_ENDED = ("delivered", "expired")
_TOLD = (*_ENDED, "failed")
_LONGEST_TEXT = 100_000
_LONGEST_ERROR = 80


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """A message of somebody, a change of a message's state, or words of the agent."""

    kind: Literal["message", "state", "reply"]
    at: datetime
    text: str
    id: int | None = None
    origin: str | None = None
    actor_name: str | None = None
    status: str | None = None


class Conversation:
    """Follows one session over the database, from some lines before now on."""

    def __init__(self, box: Pillarbox, session_id: str) -> None:
        self._box = box
        self._session_id = session_id
        self._seq = self._line = 0
        self._watched: dict[int, str] = {}
        self._taken_back: set[int] = set()
        self.working = False
        self.open = 0

    async def begin(self, *, shown: int = SHOWN_AT_FIRST) -> None:
        """Find the end of what was said, and go back by so many lines."""
        await self._box.sessions.get(self._session_id)
        self._seq = max(await _end(self._has_message_after) - shown, 0)
        self._line = max(await _end(self._has_line_after) - shown, 0)

    async def say(self, text: str, *, actor_name: str | None = None) -> int:
        """Hand in a message; it is on disk when this returns."""
        enqueued = await self._box.inbound.enqueue(
            session_id=self._session_id,
            origin=ORIGIN,
            content=text,
            actor_name=actor_name,
            source_channel_id=self._session_id,
        )
        self._watched[enqueued.seq] = enqueued.status
        return enqueued.id

    async def obey(self, text: str) -> str | None:
        """The answer to `/queue`, `/cancel` or `/help`; None for anything that is for the agent."""
        answer = await self._box.commands.run(self._session_id, text)
        if answer is not None and text.strip() == "/cancel":
            self._taken_back |= self._watched.keys()
        return answer

    async def earlier(self) -> list[str]:
        """What was last said from a terminal, for the history of the input line."""
        after = max(self._seq - _AT_ONCE, 0)
        messages = await self._box.inbound.list(session_id=self._session_id, after=after, limit=2 * _AT_ONCE)
        return [message.content for message in messages if message.origin == ORIGIN and message.content]

    async def news(self) -> list[Heard]:
        """What was said or has changed since the last look, in order."""
        heard = [*await self._changes(), *await self._messages(), *await self._replies()]
        return sorted(heard, key=lambda each: each.at)

    async def status(self) -> str:
        """One line for people: what the session is doing now."""
        session = await self._box.sessions.get(self._session_id)
        queue = await self._box.inbound.queue(self._session_id)
        agent = await self._box.hooks.agent_state(self._session_id)
        self.open = queue.pending + queue.failed + queue.processing
        self.working = queue.processing > 0 or (agent is not None and agent.turn == "working")
        if session.lifecycle_status == "closed":
            return "closed"
        if queue.pending and not queue.processing and not await self._somebody_delivers():
            return f"{queue.pending + queue.failed} waiting; nobody delivers now, start pillarbox serve"
        return _in_words(queue, agent, self.now())

    async def _somebody_delivers(self) -> bool:
        return any(node.state == "alive" and node.concurrency > 0 for node in await self._box.nodes.list())

    def now(self) -> datetime:
        """The present as it stands beside what is said: the wall clock may be ahead of that by up to a second."""
        clock = self._box.database.clock
        return clock.shown(clock.now())

    async def turn_is_over(self, since: datetime) -> bool:
        """Whether the agent says that it ended a turn after this moment."""
        agent = await self._box.hooks.agent_state(self._session_id)
        ended_at = None if agent is None else agent.last_turn_completed_at
        return ended_at is not None and ended_at >= since

    async def _messages(self) -> list[Heard]:
        found = await self._box.inbound.list(session_id=self._session_id, after=self._seq, limit=_AT_ONCE)
        self._seq = max((message.seq for message in found), default=self._seq)
        return [_message(message) for message in found]

    async def _changes(self) -> list[Heard]:
        """What has become of what was said here, until it has ended."""
        if not self._watched:
            return []
        first = min(self._watched)
        found = await self._box.inbound.list(session_id=self._session_id, after=first - 1, limit=_MOST_WATCHED)
        now = {message.seq: message for message in found}
        changes = []
        for seq, before in list(self._watched.items()):
            message = now.get(seq)
            if message is not None and message.status != before and message.status in _TOLD:
                changes.append(_state(message, taken_back=seq in self._taken_back))
            if message is not None:
                self._watched[seq] = message.status
            if (message is None and seq < max(now, default=0)) or self._watched[seq] in _ENDED:
                del self._watched[seq]
        return changes

    async def _replies(self) -> list[Heard]:
        lines = await self._box.conversations.replies(self._session_id, after=self._line, limit=_AT_ONCE)
        self._line = max((line.seq for line in lines), default=self._line)
        return [Heard(kind="reply", at=line.said_at, text=line.content) for line in lines if line.kind == "agent"]

    async def _has_message_after(self, seq: int) -> bool:
        return bool(await self._box.inbound.list(session_id=self._session_id, after=seq, limit=1))

    async def _has_line_after(self, seq: int) -> bool:
        return bool(await self._box.conversations.replies(self._session_id, after=seq, limit=1))


def visible(text: str) -> str:
    """Text of others for a terminal: lines stay lines, whatever else would move it is shown escaped."""
    lines = text.replace("\r\n", "\n").expandtabs(4).split("\n")
    return "\n".join(printable(line, _LONGEST_TEXT) for line in lines)


def _message(message: InboundMessage) -> Heard:
    return Heard(
        kind="message",
        id=message.id,
        at=message.created_at,
        text=message.content or f"({message.message_type})",
        origin=message.origin,
        actor_name=message.actor_name,
        status=message.status,
    )


def _state(message: InboundMessage, *, taken_back: bool) -> Heard:
    match message.status:
        case "delivered":
            text = "delivered"
        case "failed":
            text = f"not delivered yet: {printable(message.last_error or 'no reason', _LONGEST_ERROR)}"
        case _ if taken_back:
            text = "canceled"
        case _:
            text = f"given up: {printable(message.last_error or 'no reason', _LONGEST_ERROR)}"
    at = message.processed_at or message.created_at
    return Heard(kind="state", id=message.id, at=at, text=text, status=message.status)


def _in_words(queue: QueueState, agent: AgentState | None, now: datetime) -> str:
    head, waiting = queue.head, queue.pending + queue.failed
    if head is not None and head.status == "failed":
        seconds = 0.0 if head.next_retry_at is None else (head.next_retry_at - now).total_seconds()
        error = printable(head.last_error or "not delivered", _LONGEST_ERROR)
        return f"{waiting} waiting; {error} Next try in {span(max(seconds, 0))}."
    if queue.processing:
        return "being delivered" + (f", {waiting} waiting" if waiting else "")
    if waiting:
        return f"{waiting} waiting"
    match agent.turn if agent is not None else None:
        case "working":
            return "the agent is working"
        case "waiting":
            said = agent.last_notification if agent is not None else None
            return "the agent waits for you" + (f": {printable(said, _LONGEST_ERROR)}" if said else "")
        case _:
            return "nothing waits"


async def _end(has_more: Callable[[int], Awaitable[bool]]) -> int:
    """The last number there is, found without reading all before it."""
    low, high = 0, 1
    while await has_more(high):
        low, high = high, high * 2
    while low < high:
        middle = (low + high) // 2
        if await has_more(middle):
            low = middle + 1
        else:
            high = middle
    return low
