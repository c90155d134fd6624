"""From a platform's message to a row: what every adapter does, whatever the platform."""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal, Protocol

import msgspec

from pillarbox.errors import DuplicateMismatch, InvalidInput, NotFound, SessionClosed, SessionExists, Unavailable
from pillarbox.inbound.edge import LONGEST_SOURCE_ID
from pillarbox.inbound.model import Enqueued, MessageType, NewMessage
from pillarbox.inbound.pipe import Inbound
from pillarbox.inbound.positions import Position
from pillarbox.outlast import outlast
from pillarbox.sessions import Channel, Sessions
from pillarbox.telemetry import brief, logger
from pillarbox.text import check_json

_log = logger(__name__)

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_LONGEST_NAME = 1000
_LONGEST_CHANNEL = 255
_LONGEST_IN_SESSION_ID = 120
_DEEPEST = 64
_MOST_SUCCESSORS = 1000


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """A message as a platform told it; it may hold text that no database stores."""

    origin: str
    channel_id: str
    content: str
    message_type: MessageType = "text"
    payload: Any = None
    source_message_id: str | None = None
    actor_id: str | None = None
    actor_name: str | None = None
    title: str | None = None
    session_id: str | None = None


class Taken(msgspec.Struct, frozen=True):
    """What became of messages: new rows, ones that were there before, and those that belong nowhere."""

    stored: int
    duplicates: int
    ignored: int


@dataclass(frozen=True, slots=True)
class AdapterPolicy:
    """Which session an outside conversation belongs to when no session has it among its channels."""

    default_session: str | None = None
    on_unknown: Literal["create", "ignore"] = "create"
    default_target: dict[str, Any] = field(default_factory=lambda: {"kind": "none"})


class Source(Protocol):
    """Something that asks a platform for messages until it is cancelled."""

    async def run(self) -> None: ...


class Adapters:
    """Takes what platforms send: resolves the session, stores the row, and nothing else."""

    def __init__(self, inbound: Inbound, sessions: Sessions, policy: AdapterPolicy) -> None:
        self._inbound = inbound
        self._sessions = sessions
        self._policy = policy
        self._stopped = asyncio.Event()
        self.sources: list[Source] = []
        self.after_storing: Callable[[Received], None] = lambda message: None
        self.with_files: Callable[[int, Received], None] = lambda message_id, message: None
        self.commands: Callable[[Received, str, Position | None], Awaitable[bool]] | None = None
        self.join: Callable[[Received, str], Awaitable[None]] = _stays_outside

    async def run(self) -> None:
        """Let every source work until `stop`; what they had not confirmed, their platforms tell again."""
        tasks = [asyncio.create_task(source.run()) for source in self.sources]
        try:
            await self._stopped.wait()
        finally:
            self._stopped.clear()
            for task in tasks:
                task.cancel()
            if tasks:
                # Cancelled once, they may close what they have opened.
                await outlast(asyncio.wait(tasks))

    def begin(self) -> None:
        """Forget a stop that came when nothing ran."""
        self._stopped.clear()

    def stop(self) -> None:
        self._stopped.set()

    async def take_all(self, messages: Iterable[Received]) -> Taken:
        """Store messages one after another; a faulty one is left out, and `Unavailable` ends it so that all come again."""
        answers = [await self.take(message) for message in messages]
        duplicates = sum(answer == "duplicate" for answer in answers)
        ignored = sum(answer == "ignored" for answer in answers)
        return Taken(len(answers) - duplicates - ignored, duplicates, ignored)

    async def take(
        self, message: Received, *, position: Position | None = None
    ) -> Enqueued | Literal["duplicate", "ignored"]:
        """Store one message; when this returns it is on disk, or it never will be.

        `position` is how far the adapter has read with it, and moves in the same transaction.
        """
        clean = _storable(message)
        try:
            session_id = await self._session_of(clean)
            while session_id is not None:
                try:
                    if self.commands is not None and await self.commands(clean, session_id, position):
                        return "ignored"
                    enqueued = await self._inbound.put(_new(clean, session_id), position=position)
                    if enqueued.duplicate:
                        return "duplicate"
                    self.after_storing(clean)
                    self.with_files(enqueued.id, clean)
                    return enqueued
                except (SessionClosed, NotFound):
                    session_id = await self._successor(clean, session_id)
        except DuplicateMismatch:
            # The same message, edited meanwhile or taken by another session.
            return "duplicate"
        except InvalidInput as fault:
            _log.warning("a message could not be stored and was left out", origin=clean.origin, error=brief(fault))
        return "ignored"

    async def _session_of(self, message: Received) -> str | None:
        if message.session_id is not None:
            return message.session_id
        found = await self._sessions.find_by_channel(message.origin, message.channel_id)
        if found is None and self._policy.default_session is not None:
            await self.join(message, self._policy.default_session)
        if found is not None or self._policy.default_session is not None:
            return found or self._policy.default_session
        return await self._create(message, _session_id(message)) if self._policy.on_unknown == "create" else None

    async def _successor(self, message: Received, session_id: str) -> str | None:
        """Where messages of a session that is closed, or not there, go: to a new one, or nowhere."""
        missing, creating = await self._is_missing(session_id), self._policy.on_unknown == "create"
        if missing and creating:
            return await self._create(message, session_id)
        if missing and message.session_id is None:
            raise Unavailable(f"The session {session_id} of this chat does not exist; open it, and send again.")
        if creating and message.session_id is None:
            return await self._create(message, _next_id(message, session_id))
        _log.warning("a message was left out: its session takes none", origin=message.origin, session_id=session_id)
        return None

    async def _is_missing(self, session_id: str) -> bool:
        try:
            await self._sessions.get(session_id)
        except NotFound:
            return True
        return False

    async def _create(self, message: Received, session_id: str) -> str:
        """A session for this conversation; whoever else creates one at the same time arrives at the same id."""
        for _ in range(_MOST_SUCCESSORS):
            first = _session_id(message)
            own = session_id == first or session_id.startswith(f"{first}#")
            try:
                await self._sessions.open(
                    session_id=session_id,
                    target=self._policy.default_target,
                    title=message.title if own else None,
                    channels=[Channel(message.origin, message.channel_id)] if own else [],
                )
            except SessionExists:
                if own and (await self._sessions.get(session_id)).lifecycle_status == "closed":
                    session_id = _next_id(message, session_id)
                    continue
            if not own and message.session_id is None:
                await self.join(message, session_id)
            return session_id
        raise Unavailable("Every session that this chat could have is closed; give it one of its own.")


async def _stays_outside(message: Received, session_id: str) -> None:
    """Nobody keeps track of the chats of the default session."""


def _new(message: Received, session_id: str) -> NewMessage:
    return NewMessage(
        session_id=session_id,
        origin=message.origin,
        content=message.content,
        message_type=message.message_type,
        payload=message.payload,
        actor_id=message.actor_id,
        actor_name=message.actor_name,
        source_message_id=message.source_message_id,
        source_channel_id=message.channel_id,
    )


def _session_id(message: Received) -> str:
    """The id of a conversation's first session, the same on every node."""
    channel = message.channel_id
    if len(channel) > _LONGEST_IN_SESSION_ID:
        channel = sha256(channel.encode()).hexdigest()
    return f"{message.origin}:{channel}"


def _next_id(message: Received, session_id: str) -> str:
    """The id after this one, again the same on every node."""
    first = _session_id(message)
    if session_id == first:
        return f"{first}#2"
    number = session_id.removeprefix(f"{first}#")
    return f"{first}#{int(number) + 1}" if number.isascii() and number.isdigit() and len(number) < 9 else first


def _storable(message: Received) -> Received:
    """The message with U+FFFD for what no database stores; text that was changed is kept as it was in the payload."""
    content = _UNSTORABLE.sub("\ufffd", message.content)
    payload = _storable_payload(message.payload)
    if content != message.content:
        raw = b64encode(message.content.encode("utf-8", "surrogatepass")).decode()
        payload = {**(payload if isinstance(payload, dict) else {}), "raw_content": raw}
    return Received(
        origin=message.origin,
        channel_id=_short(message.channel_id, _LONGEST_CHANNEL),
        content=content,
        message_type=message.message_type,
        payload=payload or None,
        source_message_id=None if not message.source_message_id else _short(message.source_message_id),
        actor_id=None if not message.actor_id else _short(message.actor_id),
        actor_name=_UNSTORABLE.sub("\ufffd", message.actor_name)[:_LONGEST_NAME] if message.actor_name else None,
        title=_UNSTORABLE.sub("\ufffd", message.title)[:_LONGEST_NAME] if message.title else None,
        session_id=message.session_id,
    )


def _short(name: str, most: int = LONGEST_SOURCE_ID) -> str:
    """A name on one line and of bounded length; a longer one goes by its digest, so that two stay two."""
    clean = _CONTROL.sub("\ufffd", name)
    return clean if len(clean) <= most else f"sha256:{sha256(clean.encode()).hexdigest()}"


def _storable_payload(payload: Any) -> Any:
    try:
        clean = _replaced(payload, _DEEPEST)
        check_json("payload", clean)
    except (InvalidInput, RecursionError):
        return None
    return clean


def _replaced(value: Any, deepest: int) -> Any:
    if isinstance(value, str):
        return _UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return None
    if isinstance(value, dict | list) and deepest == 0:
        raise InvalidInput("payload", "is nested too deep.")
    if isinstance(value, dict):
        return {_UNSTORABLE.sub("\ufffd", name): _replaced(inner, deepest - 1) for name, inner in value.items()}
    if isinstance(value, Sequence):
        return [_replaced(inner, deepest - 1) for inner in value]
    return value
