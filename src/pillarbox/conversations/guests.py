"""Chats that have written to the default session and are no other's: what they are told, and their places in it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from pillarbox.conversations.model import GUEST, LISTENER
from pillarbox.conversations.transcript import Said
from pillarbox.storage import Row, Step, instant_or_none, load_queries

queries = load_queries("pillarbox.conversations")

MOST_LISTENERS = 100
MOST_GUESTS = 1000


class Name(NamedTuple):
    """A chat."""

    origin: str
    channel_id: str


class Asked(NamedTuple):
    """Whose message an agent was last given, and, for each thing it said, whose it was at work on."""

    last: Name | None
    at_work_on: list[Name | None]

    @property
    def chats(self) -> set[Name]:
        return {name for name in (self.last, *self.at_work_on) if name is not None}


def whom_it_answers(session_id: str, turn: int, said: Sequence[Said]) -> Step[Asked]:
    """Who may be answered with what an agent said, when it was last given that message.

    An agent that confirms its prompts may be at work on an earlier one than it was given last: the one that it had confirmed
    last when it spoke.
    """
    rows = yield queries.asked(session_id=session_id, turn=turn)
    confirmed = [(_text(at), _name(row)) for row in rows if (at := instant_or_none(row[3])) is not None]
    confirmed.sort(key=lambda each: each[0])
    at_work_on: list[Name | None] = []
    for each in said:
        before = [name for at, name in confirmed if not each.at or at <= each.at]
        at_work_on.append(before[-1] if before else None)
    return Asked(_name(rows[-1]) if rows and rows[-1][0] == turn else None, at_work_on)


def add(session_id: str, chat: Name, joined: int, next_seq: int) -> Step[bool]:
    """Let a chat have a place, or its place be of the other kind; False where there is none."""
    places = {Name(row[0], row[1]): row[2] for row in (yield queries.chats(session_id=session_id))}
    guests = sum(kind == GUEST for kind in places.values())
    if joined == LISTENER and places.get(chat, GUEST) == GUEST and len(places) - guests >= MOST_LISTENERS:
        return False
    if chat not in places:
        crowded = joined == GUEST and guests >= MOST_GUESTS
        if crowded and not (yield queries.forget_guest(session_id=session_id)):
            return False
        yield queries.add_chats(rows=[(session_id, *chat, next_seq)], joined=joined)
    yield queries.change_joined(session_id=session_id, **chat._asdict(), joined=joined, seq=next_seq)
    yield from share(session_id)
    return True


def has_joined(session_id: str, origin: str, channel_id: str) -> Step[bool]:
    """Whether a chat has a place that it got by writing, or listens to another session."""
    name = {"session_id": session_id, "origin": origin, "channel_id": channel_id}
    found = yield queries.how_joined(**name)
    return bool(found and found[0][0]) or bool((yield queries.listens_elsewhere(**name)))


def leave(session_id: str, origin: str, channel_id: str) -> Step[None]:
    """Let a chat that had joined be told nothing more."""
    yield queries.leave(session_id=session_id, origin=origin, channel_id=channel_id)
    yield queries.leave_others(session_id=session_id, origin=origin, channel_id=channel_id)
    yield from share(session_id)


def share(session_id: str) -> Step[None]:
    """See to it that what people say is kept where somebody is told what they say in other chats."""
    kinds = [row[2] for row in (yield queries.chats(session_id=session_id))]
    yield queries.share(session_id=session_id, shared=int(len(kinds) > 1 and any(kind != GUEST for kind in kinds)))


def _name(row: Row) -> Name | None:
    return None if row[2] is None else Name(row[1], row[2])


def _text(at: datetime) -> str:
    """An instant as transcripts tell it, so that both compare."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")
