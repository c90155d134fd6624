"""The next message to a chat: queued in the transaction that moves the chat's place, and only when none is on its way."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from pillarbox.conversations.lines import queries
from pillarbox.conversations.model import Chat, line_from
from pillarbox.conversations.pieces import LIMITS, compose
from pillarbox.errors import InvalidInput, OptedOut
from pillarbox.outbound.model import NewMessage, Tenant, TenantSettings
from pillarbox.outbound.pipe import Outbound
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
    outbound: Outbound, session_id: str, origin: str, channel_id: str, *, now: datetime, number: str | None = None
) -> Step[str | None]:
    """Queue the next message to a chat; answers its id, or None when there is nothing to tell, or not yet.

    `number` is the one that WhatsApp's replies come from, whichever was written to.
    """
    name = {"session_id": session_id, "origin": origin, "channel_id": channel_id}
    found = yield queries.lock_chat(**name)
    if not found:
        return None
    seq, position, outstanding, is_ours = found[0]
    if not is_ours:
        yield queries.remove_chat(**name)
        return None
    if outstanding is not None and (yield queries.on_its_way(message_id=outstanding)):
        return None
    chat = Chat(session_id, origin, channel_id, seq, position, outstanding)
    rows = yield queries.lines(session_id=session_id, seq=seq, limit=_MOST_LINES)
    text, seq, position = compose([line_from(row) for row in rows], chat, limit=LIMITS[origin])
    message_id = (yield from _queue(outbound, chat, text, now, number)) if text else None
    ((next_seq,),) = yield queries.next_seq(session_id=session_id)
    yield queries.tell(**name, seq=seq, position=position, message_id=message_id, behind=int(seq < next_seq))
    return message_id


def _queue(outbound: Outbound, chat: Chat, text: str, now: datetime, number: str | None) -> Step[str | None]:
    """What cannot be sent to a chat is passed over: the next thing said may well be sent."""
    route = yield queries.last_route(session_id=chat.session_id, origin=chat.origin, channel_id=chat.channel_id)
    came: Any = json.loads(route[0][0]) if route and route[0][0] else None
    came = {**(came if isinstance(came, dict) else {}), **({"phone_number_id": number} if number else {})}
    try:
        return (yield from outbound.queuing(TENANT, new_message(chat, text, came), now))
    except OptedOut as refused:
        return refused.message_id
    except InvalidInput as fault:
        _log.warning(
            "a reply could not be queued and was passed over",
            session_id=chat.session_id,
            origin=chat.origin,
            field=fault.field,
        )
        return None


def new_message(chat: Chat, text: str, came: dict[str, Any]) -> NewMessage:
    """A text to a chat, by the way on which its last message came."""
    wanted = {"telegram": "thread_id", "slack": "thread_ts", "whatsapp": "phone_number_id"}.get(chat.origin)
    data = {wanted: came[wanted]} if wanted and came.get(wanted) is not None else None
    to = chat.channel_id
    if chat.origin == "whatsapp" and to.isdigit():
        to = f"+{to}"
    channel: Any = chat.origin
    return NewMessage(channel=channel, to=to, text=text, data=data, max_attempts=_ATTEMPTS, tags=("reply",))
