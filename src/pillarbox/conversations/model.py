"""What is said in a session, and how far each of its chats has been told."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import msgspec

from pillarbox.storage import Row, instant

Kind = Literal["agent", "user", "answer"]
QUOTE = "> "
"""How each line but the first of what a person said elsewhere begins."""


OWN, GUEST, LISTENER = 0, 1, 2
"""How a chat came to its session: as one of its channels; or to the default one, told its own answers, or everything."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was said: by the agent to all chats, by a person to the others, or by us to one chat.

    Of what the agent said, `origin` and `channel_id` tell whose message it was at work on, where that is known.
    """

    session_id: str
    seq: int
    kind: Kind
    content: str
    origin: str | None
    channel_id: str | None
    said_at: datetime
    turn: int = 0

    def is_for(self, chat: Chat) -> bool:
        """Whether a chat is told this: people know what they said themselves, and an answer is for who asked.

        A guest is told what the agent may be saying to it, and nothing of the others.
        """
        here = (self.origin, self.channel_id) == (chat.origin, chat.channel_id)
        if chat.joined == GUEST:
            return self.kind != "user" and (here or (self.kind == "agent" and self.turn in chat.own_turns))
        return self.kind == "agent" or here == (self.kind == "answer")


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat of a session, the line and the place in it that it is told next, and the message that is on its way.

    `first_of_turn` is the first message that told of what was said in the turn. A guest is told the answers to its own messages,
    in `own_turns`, and nothing else. `way` is where it had last written, as known up to the session's message `way_seq`.
    """

    session_id: str
    origin: str
    channel_id: str
    seq: int
    position: int
    message_id: str | None
    turn: int = 0
    first_of_turn: str | None = None
    joined: int = OWN
    way: str | None = None
    way_seq: int = 0
    own_turns: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Source:
    """Where a session's output is read, and how far it was.

    `left` is how far the transcript before this one was read, and `looks_back` whether it may still be written to.
    """

    session_id: str
    path: str | None
    turn: str | None
    created_at: datetime
    read: Cursor
    summary: str | None = None
    summary_at: datetime | None = None
    left: Cursor | None = None
    looks_back: bool = False
    over_since: datetime | None = None

    @property
    def before(self) -> Cursor | None:
        """The transcript that is read beside the present one: the last before it, or the one that the agent returns to."""
        is_back = self.left is not None and self.left.source == self.path
        return self.left if self.looks_back or is_back else None


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a transcript: the file, how it begins, the byte after the last line read, and when that was said."""

    source: str | None = None
    head: str | None = None
    position: int = 0
    told_until: str | None = None


def line_from(row: Row) -> Line:
    session_id, seq, kind, content, origin, channel_id, said_at, turn, _ = row
    return Line(
        session_id=session_id,
        seq=seq,
        kind=kind,
        content=content,
        origin=origin,
        channel_id=channel_id,
        said_at=instant(said_at),
        turn=turn,
    )
