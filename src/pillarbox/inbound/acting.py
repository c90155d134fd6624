"""What operators do to messages: try one now, give one up."""

from __future__ import annotations

from datetime import datetime, timedelta

from pillarbox.errors import AlreadyEnded
from pillarbox.inbound import reading, strands
from pillarbox.inbound.model import ENDED, InboundMessage
from pillarbox.sessions import SessionChange, Sessions
from pillarbox.storage import Step


async def adopt(sessions: Sessions, session_id: str) -> None:
    """A program was started for a session: it is headless no more."""
    if (await sessions.get(session_id)).lifecycle_status == "headless":
        await sessions.change(session_id, SessionChange(lifecycle_status="active"))


def hasten(message_id: int, now: datetime) -> Step[InboundMessage]:
    """Try a waiting message now; one in flight is left alone, one behind others keeps its place."""
    message, strand = yield from _locked_message(message_id)
    if strand.head_seq == message.seq:
        yield from strands.hasten(message.session_id, message.seq, now)
    return (yield from reading.get(message_id))


def expire(message_id: int, now: datetime, gate: timedelta) -> Step[InboundMessage]:
    """Give a message up, so that the next of its session can go."""
    message, strand = yield from _locked_message(message_id)
    yield strands.queries.expire_row(id=message_id, now=now)
    if strand.head_seq == message.seq:
        head = (yield from strands.next_heads([(message.session_id, message.seq)]))[message.session_id]
        yield strands.queries.replace_head(
            session_id=message.session_id, head_seq=head, due_at=None if head is None else strand.due(now, gate)
        )
    else:
        yield strands.queries.shorten(session_id=message.session_id)
    return (yield from reading.get(message_id))


def _locked_message(message_id: int) -> Step[tuple[InboundMessage, strands.Locked]]:
    """A message that has not ended, under its strand's lock."""
    before = yield from reading.get(message_id)
    locked = yield from strands.lock({before.session_id})
    message = yield from reading.get(message_id)
    if message.status in ENDED:
        raise AlreadyEnded(f"Message {message_id} is {message.status} and stays so.")
    return message, locked[message.session_id]
