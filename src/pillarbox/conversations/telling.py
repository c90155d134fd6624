"""The next message to a chat: queued in the transaction that moves the chat's place, and only when none is on its way."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pillarbox.conversations.lines import queries
from pillarbox.conversations.model import GUEST, Chat, Line, line_from
from pillarbox.conversations.pieces import LIMITS, compose, of_one_turn
from pillarbox.conversations.ways import of_one_way
from pillarbox.errors import InvalidInput, OptedOut
from pillarbox.outbound.contacts import is_whatsapp_user
from pillarbox.outbound.model import NewMessage, Tenant, TenantSettings
from pillarbox.outbound.pipe import Outbound
from pillarbox.outbound.providers.whatsapp import GROUP
from pillarbox.outbound.tenants import CONVERSATIONS
from pillarbox.storage import Step
from pillarbox.telemetry import logger

_log = logger(__name__)

_MOST_LINES = 50
# With five seconds before the second, and twice as long each time, a platform may be away for three hours.
_ATTEMPTS = 12

TENANT = Tenant(
    tenant_id=CONVERSATIONS,
    name="Replies to chats",
    providers={
        "telegram": {"provider": "telegram", "credentials": {"bot_token": "setting:adapters.telegram.bot_token"}},
        "discord": {"provider": "discord", "credentials": {"bot_token": "setting:adapters.discord.bot_token"}},
        "slack": {"provider": "slack", "credentials": {"bot_token": "setting:adapters.slack.bot_token"}},
        "whatsapp": {
            "provider": "whatsapp",
            "credentials": {"access_token": "setting:adapters.whatsapp.access_token"},
        },
    },
    settings=TenantSettings(),
    rate=None,
    created_at=datetime(2000, 1, 1, tzinfo=UTC),
    updated_at=datetime(2000, 1, 1, tzinfo=UTC),
)
"""Whose messages replies are: nobody's who could be written to by other means."""


def due_chats(limit: int) -> Step[list[tuple[str, str, str]]]:
    """The chats that have something to be told and nothing on its way."""
    return [(row[0], row[1], row[2]) for row in (yield queries.due_chats(limit=limit))]


def tell(
    outbound: Outbound,
    session_id: str,
    origin: str,
    channel_id: str,
    *,
    now: datetime,
    number: str | None = None,
    threaded: bool = False,
) -> Step[str | None]:
    """Queue the next message to a chat; answers its id, or None when there is nothing to tell, or not yet.

    `number` is the one that WhatsApp's replies come from, whichever was written to; `threaded` makes what is said in one turn
    answer the first message of that turn.
    """
    name = {"session_id": session_id, "origin": origin, "channel_id": channel_id}
    found = yield queries.lock_chat(**name)
    if not found:
        return None
    *place, is_ours = found[0]
    if not is_ours:
        yield queries.remove_chat(**name)
        return None
    chat = Chat(session_id, origin, channel_id, *place)
    if chat.message_id is not None and (yield queries.on_its_way(message_id=chat.message_id)):
        return None
    rows = yield queries.lines(session_id=session_id, seq=chat.seq, limit=_MOST_LINES)
    lines = [line_from(row) for row in rows]
    chat = yield from _with_own_turns(chat, lines)
    lines, turn = of_one_turn(lines, chat) if threaded else (lines, None)
    there = yield from of_one_way(chat, lines, {row[1]: row[8] for row in rows if row[8] is not None})
    text, seq, position = compose(there.lines, chat, limit=LIMITS[origin])
    answered = yield from _answered(chat, turn)
    own = {"phone_number_id": number} if number and origin == "whatsapp" else {}
    message_id = None
    if text:
        new = new_message(chat, text, {**_answering(origin, answered), **there.data, **own})
        message_id = yield from _queue(outbound, chat, new, now)
    begins = message_id is not None and turn is not None and answered is None
    ((next_seq,),) = yield queries.next_seq(session_id=session_id)
    yield queries.tell(
        **name,
        seq=seq,
        position=position,
        message_id=message_id,
        behind=int(seq < next_seq),
        turn=turn if begins else chat.turn,
        first_of_turn=message_id if begins else chat.first_of_turn,
        way=None if there.kept.data is None else json.dumps(there.kept.data),
        way_seq=there.kept.seq,
    )
    return message_id


def _with_own_turns(chat: Chat, lines: Sequence[Line]) -> Step[Chat]:
    """A guest is told the answers to its own messages."""
    turns = sorted({line.turn for line in lines if line.kind == "agent"})
    if chat.joined != GUEST or not turns:
        return chat
    name = {"session_id": chat.session_id, "origin": chat.origin, "channel_id": chat.channel_id}
    return replace(chat, own_turns=frozenset(row[0] for row in (yield queries.own_turns(**name, turns=turns))))


def new_message(chat: Chat, text: str, data: dict[str, Any]) -> NewMessage:
    """A text to a chat, by the way on which its last message came."""
    channel: Any = chat.origin
    to = _number_or_group(chat.channel_id) if chat.origin == "whatsapp" else chat.channel_id
    if chat.origin == "discord":
        # A thread that belongs to its channel's session is a place of its own to write to.
        to, data = str(data.get("thread_id") or to), {name: data[name] for name in data if name != "thread_id"}
    return NewMessage(channel=channel, to=to, text=text, data=data or None, max_attempts=_ATTEMPTS, tags=("reply",))


def _number_or_group(channel_id: str) -> str:
    """WhatsApp tells numbers without their plus, people without a number by an id of their own, and groups."""
    if channel_id.isascii() and channel_id.isdigit():
        return f"+{channel_id}"
    return channel_id if is_whatsapp_user(channel_id) else f"{GROUP}{channel_id}"


def _answered(chat: Chat, turn: int | None) -> Step[str | None]:
    """What the platform calls the first message of the turn that is being told of, if there is one."""
    if turn is None or turn != chat.turn or chat.first_of_turn is None:
        return None
    found = yield queries.platform_id(message_id=chat.first_of_turn)
    return found[0][0] if found else None


def _answering(origin: str, answered: str | None) -> dict[str, Any]:
    """How a message says which other one it answers."""
    if answered is None:
        return {}
    match origin:
        case "telegram":
            return {"reply_to": int(answered)} if answered.isdigit() else {}
        case "slack":
            return {"thread_ts": answered}
        case _:
            return {"reply_to": answered}


def _queue(outbound: Outbound, chat: Chat, new: NewMessage, now: datetime) -> Step[str | None]:
    """What cannot be sent to a chat is stored as failed and passed over: the next thing said may well be sent."""
    try:
        return (yield from outbound.queuing(TENANT, new, now))
    except OptedOut as refused:
        return refused.message_id
    except InvalidInput as fault:
        _log.warning(
            "a reply cannot be sent and was passed over",
            session_id=chat.session_id,
            origin=chat.origin,
            field=fault.field,
        )
        return (yield from outbound.failing(TENANT, new, f"It cannot be sent: {fault}", now))
