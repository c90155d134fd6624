"""Adding to a conversation: what its agent said, what people said, and our own answers; the steps that write lines."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pillarbox.conversations import guests
from pillarbox.conversations.model import OWN, QUOTE, Cursor, Kind, Line, Source, line_from
from pillarbox.conversations.transcript import LONGEST_SAYING, Said
from pillarbox.inbound.attachment import described
from pillarbox.inbound.targets.tmux_text import one_line
from pillarbox.sessions import Session
from pillarbox.storage import Row, Step, instant, instant_or_none, load_queries

queries = load_queries("pillarbox.conversations")

PANE = "pane"
_MOST_HEARD = 50
_NODE_GONE_AFTER = timedelta(days=1)
_HEARD_ENDS = ("delivered", "expired")


class Place(NamedTuple):
    """A conversation under our lock."""

    next_seq: int
    heard_seq: int
    shared: int
    read: Cursor
    left: Cursor | None
    left_at: datetime | None

    def moved(self, read: Cursor, left: Cursor | None, now: datetime) -> Place:
        """The place behind what was read; `left` is how far the transcript before was, where that is known anew."""
        left_at = self.left_at if left is None or (self.left and left.source == self.left.source) else now
        return self._replace(read=read, left=left or self.left, left_at=left_at)


class New(NamedTuple):
    """A line to be added; `turn` is the message that it says, or that the agent had last been given, `way` where it goes."""

    kind: Kind
    content: str
    origin: str | None = None
    channel_id: str | None = None
    source_id: str | None = None
    turn: int = 0
    way: str | None = None


def lock(session_id: str, source: str | None = None) -> Step[Place]:
    """The conversation of a session, begun if there is none, held until the transaction ends."""
    rows = yield queries.lock(session_id=session_id)
    if not rows:
        yield queries.begin(session_id=session_id, source=source)
        rows = yield queries.lock(session_id=session_id)
    next_seq, heard_seq, shared, source, head, position, told_until, *left, left_at = rows[0]
    read = Cursor(source, head, position, told_until)
    return Place(next_seq, heard_seq, shared, read, _left(*left), instant_or_none(left_at))


def agree_on_chats(session: Session, origins: frozenset[str], *, watches_pane: bool) -> Step[None]:
    """Let exactly the chats of a session that can be written to be told what is said in it, new ones from now on."""
    wanted = {(c.origin, c.channel_id) for c in session.channels if c.origin in origins}
    known = {
        (origin, channel_id): joined
        for origin, channel_id, joined in (yield queries.chats(session_id=session.session_id))
    }
    if not wanted and not known and not watches_pane:
        return
    place = yield from lock(session.session_id, PANE if watches_pane else None)
    if watches_pane != (place.read.source == PANE):
        yield queries.watch_pane(session_id=session.session_id, source=PANE if watches_pane else None)
    fresh = sorted(wanted - known.keys())
    if fresh:
        yield queries.add_chats(rows=[(session.session_id, *chat, place.next_seq) for chat in fresh], joined=0)
    for (origin, channel_id), joined in sorted(known.items()):
        is_wanted = (origin, channel_id) in wanted
        change = queries.own_chat if joined and is_wanted else None if joined or is_wanted else queries.remove_chat
        if change is not None:
            yield change(session_id=session.session_id, origin=origin, channel_id=channel_id)
    yield from guests.share(session.session_id)


def join(session_id: str, origin: str, channel_id: str, joined: int) -> Step[bool]:
    """Let a chat that has written to the default session be told what such a chat is; False where it has too many already."""
    place = yield from lock(session_id)
    yield queries.leave_others(session_id=session_id, origin=origin, channel_id=channel_id)
    return (yield from guests.add(session_id, guests.Name(origin, channel_id), joined, place.next_seq))


def has_chat(session_id: str, origin: str, channel_id: str, joined: int) -> Step[bool]:
    """Whether a chat is told that much of what is said in a session, or could not be, as the session is not open."""
    if not (yield queries.is_open(session_id=session_id)):
        return True
    name = {"session_id": session_id, "origin": origin, "channel_id": channel_id}
    found = yield queries.how_joined(**name)
    return bool(found) and found[0][0] in (OWN, joined) and not (yield queries.listens_elsewhere(**name))


def record(source: Source, said: Sequence[Said], read: Cursor, now: datetime, left: Cursor | None = None) -> Step[int]:
    """Store what an agent said and move the cursor behind it; nothing if somebody else has read on meanwhile.

    Whatever it answers stands above it, for every chat: of what people wrote all that was delivered, and the message at the head
    of the queue once it was claimed, for it may have reached the agent though that is not marked yet.
    """
    place = yield from lock(source.session_id)
    if place.read != source.read or (place.left != source.left and place.read.source != PANE):
        return 0
    if said and place.shared:
        heard, more = yield from _hear(source.session_id, place, now, with_head=True)
        if more:
            return max(heard, 1)
        place = yield from lock(source.session_id)
    found = (yield queries.turn(session_id=source.session_id)) if said else ()
    turn = found[0][0] if found else 0
    asked = yield from guests.whom_it_answers(source.session_id, turn, said)
    new = [
        New("agent", each.text, name and name.origin, name and name.channel_id, turn=turn)
        for each, name in zip(said, asked.at_work_on, strict=True)
    ]
    place = place.moved(read, left, now)
    return (yield from _add(source.session_id, place, new, now, asked_by=asked.chats))


def hear(session_id: str, now: datetime) -> Step[int]:
    """Store, for the other chats, what people said; each message once, as soon as it was delivered."""
    place = yield from lock(session_id)
    heard, _ = yield from _hear(session_id, place, now)
    return heard


def _hear(session_id: str, place: Place, now: datetime, *, with_head: bool = False) -> Step[tuple[int, bool]]:
    """How many messages of people were stored, and whether there may be more."""
    rows = yield queries.said_by_people(session_id=session_id, heard_seq=place.heard_seq, limit=_MOST_HEARD)
    heard = list(_in_order(rows, with_head=with_head))
    if not heard:
        return 0, False
    new = [New("user", _retold(row), row[2], row[3], turn=row[0]) for row in heard if row[1] != "expired"]
    added = yield from _add(session_id, place._replace(heard_seq=heard[-1][0]), new, now)
    return added, len(heard) == _MOST_HEARD


def answer(
    session_id: str,
    origin: str,
    channel_id: str,
    text: str,
    now: datetime,
    source_id: str | None = None,
    way: str | None = None,
) -> Step[int]:
    """Store an answer of ours to one chat; `source_id` is the message that it answers, and `way` the place of that message."""
    place = yield from lock(session_id)
    new = New("answer", text, origin, channel_id, source_id, way=way)
    return (yield from _add(session_id, place, [new], now, asked_by={guests.Name(origin, channel_id)}))


def page(session_id: str, after: int, limit: int) -> Step[list[Line]]:
    """What was said, in order, from the line after that one."""
    return [line_from(row) for row in (yield queries.lines(session_id=session_id, seq=after + 1, limit=limit))]


def followed(served_by: str, limit: int, *, left_since: datetime) -> Step[list[Source]]:
    """The sessions whose agents' words this node can read; a transcript that was left before then is not looked at any more."""
    rows = yield queries.followed(served_by=served_by, limit=limit)
    over = yield queries.ending(served_by=served_by, limit=limit, closed_before=left_since - _NODE_GONE_AFTER)
    return [_source(row, left_since) for row in (*rows, *over)]


def close(session_id: str) -> Step[None]:
    """See that the last words before a close are read, and told to the chats that are of the session now."""
    yield queries.begin_ending(session_id=session_id)
    yield queries.begin_ending_of_pane(session_id=session_id)
    yield queries.leave_moved_chats(session_id=session_id)


def end(session_id: str) -> Step[None]:
    """Nothing more is to be read of a session that was closed."""
    yield queries.end(session_id=session_id)


def watched_panes(served_by: str, limit: int) -> Step[list[tuple[Source, dict[str, Any]]]]:
    """The sessions of this node whose terminals are looked at, and their targets."""
    found = []
    for session_id, target, created_at, *read in (yield queries.watched_panes(served_by=served_by, limit=limit)):
        source = Source(session_id, None, None, instant(created_at), Cursor(*read))
        found.append((source, json.loads(target)))
    return found


def _add(
    session_id: str,
    place: Place,
    new: Sequence[New],
    now: datetime,
    *,
    asked_by: Collection[guests.Name] = (),
) -> Step[int]:
    rows = [
        (session_id, place.next_seq + index, line.kind, line.content[:LONGEST_SAYING], *line[2:])
        for index, line in enumerate(new)
    ]
    if rows:
        yield queries.add_lines(rows=rows, now=now)
        yield queries.fall_behind(session_id=session_id)
        for origin, channel_id in sorted(asked_by):
            chat = {"session_id": session_id, "origin": origin, "channel_id": channel_id}
            yield queries.guest_falls_behind(**chat, seq=place.next_seq)
    read, left = place.read, place.left or Cursor()
    yield queries.move(
        session_id=session_id,
        next_seq=place.next_seq + len(rows),
        heard_seq=place.heard_seq,
        source=read.source,
        head=read.head,
        position=read.position,
        told_until=read.told_until,
        left_source=left.source,
        left_head=left.head,
        left_position=left.position,
        left_at=place.left_at,
    )
    return len(rows)


def _in_order(rows: Sequence[Row], *, with_head: bool) -> Iterator[Row]:
    """Those that have ended, up to the first that has not; with it, where the agent may know it already."""
    for row in rows:
        has_ended, was_claimed = row[1] in _HEARD_ENDS, row[8] > 0
        if has_ended or (with_head and was_claimed):
            yield row
        if not has_ended:
            return


def _retold(row: Row) -> str:
    """What a person said elsewhere, and who and where that was; no line of it can be taken for somebody else's."""
    _, _, origin, _, name, message_type, content, payload_json, _ = row
    said = content if message_type == "text" else described(message_type, content, payload_json)
    return f"[{one_line(name or 'somebody')} via {one_line(origin)}] " + f"\n{QUOTE}".join(said.splitlines())


def _source(row: Row, left_since: datetime) -> Source:
    session_id, path, turn, created_at, source, head, position, told_until, summary, summary_at, *left, closed_at = row
    *left, left_at = left
    return Source(
        session_id=session_id,
        path=path,
        turn=turn,
        created_at=instant(created_at),
        read=Cursor(source, head, position or 0, told_until),
        summary=summary,
        summary_at=instant_or_none(summary_at),
        left=_left(*left),
        looks_back=left_at is not None and instant(left_at) > left_since,
        over_since=instant_or_none(closed_at),
    )


def _left(source: str | None, head: str | None, position: int | None) -> Cursor | None:
    return None if source is None else Cursor(source, head, position or 0)
