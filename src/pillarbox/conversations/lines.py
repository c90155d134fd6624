"""Adding to a conversation: what its agent said, what people said, and our own answers; the steps that write lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from pillarbox.conversations.model import QUOTE, Cursor, Kind, Line, Source, line_from
from pillarbox.conversations.transcript import LONGEST_SAYING, Said
from pillarbox.inbound.attachment import described
from pillarbox.inbound.targets.tmux_text import one_line
from pillarbox.sessions import Session
from pillarbox.storage import Row, Step, instant, instant_or_none, load_queries

queries = load_queries("pillarbox.conversations")

PANE = "pane"
_MOST_HEARD = 50
_HEARD_ENDS = ("delivered", "expired")


class Place(NamedTuple):
    """A conversation under our lock."""

    next_seq: int
    heard_seq: int
    shared: int
    read: Cursor


class New(NamedTuple):
    """A line to be added."""

    kind: Kind
    content: str
    origin: str | None = None
    channel_id: str | None = None
    source_id: str | None = None


def lock(session_id: str, source: str | None = None) -> Step[Place]:
    """The conversation of a session, begun if there is none, held until the transaction ends."""
    rows = yield queries.lock(session_id=session_id)
    if not rows:
        yield queries.begin(session_id=session_id, source=source)
        rows = yield queries.lock(session_id=session_id)
    next_seq, heard_seq, shared, *read = rows[0]
    return Place(next_seq, heard_seq, shared, Cursor(*read))


def agree_on_chats(session: Session, origins: frozenset[str], *, watches_pane: bool) -> Step[None]:
    """Let exactly the chats of a session that can be written to be told what is said in it, new ones from now on."""
    wanted = {(c.origin, c.channel_id) for c in session.channels if c.origin in origins}
    known = {(origin, channel_id) for origin, channel_id in (yield queries.chats(session_id=session.session_id))}
    if not wanted and not known and not watches_pane:
        return
    place = yield from lock(session.session_id, PANE if watches_pane else None)
    if watches_pane != (place.read.source == PANE):
        yield queries.watch_pane(session_id=session.session_id, source=PANE if watches_pane else None)
    fresh = sorted(wanted - known)
    if fresh:
        yield queries.add_chats(rows=[(session.session_id, *chat, place.next_seq) for chat in fresh])
    for origin, channel_id in sorted(known - wanted):
        yield queries.remove_chat(session_id=session.session_id, origin=origin, channel_id=channel_id)
    yield queries.share(session_id=session.session_id, shared=int(len(wanted) > 1))


def record(source: Source, said: Sequence[Said], read: Cursor, now: datetime) -> Step[int]:
    """Store what an agent said and move the cursor behind it; nothing if somebody else has read on meanwhile."""
    place = yield from lock(source.session_id)
    if place.read != source.read:
        return 0
    if said and place.shared:
        # Whatever it answers was delivered before: a question stands above its answer.
        yield from hear(source.session_id, now)
        place = yield from lock(source.session_id)
    return (yield from _add(source.session_id, place, [New("agent", each.text) for each in said], read, now))


def hear(session_id: str, now: datetime) -> Step[int]:
    """Store, for the other chats, what people said; each message once, as soon as it was delivered."""
    place = yield from lock(session_id)
    rows = yield queries.said_by_people(session_id=session_id, heard_seq=place.heard_seq, limit=_MOST_HEARD)
    ended = list(_ended(rows))
    if not ended:
        return 0
    new = [New("user", _retold(row), row[2], row[3]) for row in ended if row[1] == "delivered"]
    place = place._replace(heard_seq=ended[-1][0])
    return (yield from _add(session_id, place, new, place.read, now))


def answer(
    session_id: str, origin: str, channel_id: str, text: str, now: datetime, source_id: str | None = None
) -> Step[int]:
    """Store an answer of ours to one chat; `source_id` is the message that it answers."""
    place = yield from lock(session_id)
    new = New("answer", text, origin, channel_id, source_id)
    return (yield from _add(session_id, place, [new], place.read, now))


def page(session_id: str, after: int, limit: int) -> Step[list[Line]]:
    """What was said, in order, from the line after that one."""
    return [line_from(row) for row in (yield queries.lines(session_id=session_id, seq=after + 1, limit=limit))]


def followed(served_by: str, limit: int) -> Step[list[Source]]:
    """The sessions whose agents' words this node can read."""
    return [_source(row) for row in (yield queries.followed(served_by=served_by, limit=limit))]


def watched_panes(served_by: str, limit: int) -> Step[list[tuple[Source, dict[str, Any]]]]:
    """The sessions of this node whose terminals are looked at, and their targets."""
    found = []
    for session_id, target, created_at, *read in (yield queries.watched_panes(served_by=served_by, limit=limit)):
        source = Source(session_id, None, None, instant(created_at), Cursor(*read))
        found.append((source, json.loads(target)))
    return found


def _add(session_id: str, place: Place, new: Sequence[New], read: Cursor, now: datetime) -> Step[int]:
    rows = [
        (session_id, place.next_seq + index, line.kind, line.content[:LONGEST_SAYING], *line[2:])
        for index, line in enumerate(new)
    ]
    if rows:
        yield queries.add_lines(rows=rows, now=now)
        yield queries.fall_behind(session_id=session_id)
    yield queries.move(
        session_id=session_id,
        next_seq=place.next_seq + len(rows),
        heard_seq=place.heard_seq,
        source=read.source,
        head=read.head,
        position=read.position,
        told_until=read.told_until,
    )
    return len(rows)


def _ended(rows: Sequence[Row]) -> Iterator[Row]:
    for row in rows:
        if row[1] not in _HEARD_ENDS:
            return
        yield row


def _retold(row: Row) -> str:
    """What a person said elsewhere, and who and where that was; no line of it can be taken for somebody else's."""
    _, _, origin, _, name, message_type, content, payload_json = row
    said = content if message_type == "text" else described(message_type, content, payload_json)
    return f"[{one_line(name or 'somebody')} via {one_line(origin)}] " + f"\n{QUOTE}".join(said.splitlines())


def _source(row: Row) -> Source:
    session_id, path, turn, created_at, source, head, position, told_until, summary, summary_at = row
    return Source(
        session_id=session_id,
        path=path,
        turn=turn,
        created_at=instant(created_at),
        read=Cursor(source, head, position or 0, told_until),
        summary=summary,
        summary_at=instant_or_none(summary_at),
    )
