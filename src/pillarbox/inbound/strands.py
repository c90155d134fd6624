"""Taking messages in and closing sessions: the steps that write strands from the producers' side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pillarbox.errors import DuplicateMismatch
from pillarbox.inbound.model import Enqueued, NewMessage
from pillarbox.inbound.positions import Position, moving
from pillarbox.sessions.registry import closed_session, unknown_session
from pillarbox.storage import Row, Statement, Step, checksum, ending, load_queries, together
from pillarbox.strands import Places
from pillarbox.text import printable

queries = load_queries("pillarbox.inbound")

Answer = Enqueued | Exception


@dataclass(frozen=True, slots=True)
class Checked:
    """A new message that passed the edge, its payload as text, and how far its adapter has read with it."""

    new: NewMessage
    payload_json: str | None
    position: Position | None = None
    trace: str | None = None

    @property
    def source(self) -> tuple[str, str] | None:
        return None if self.new.source_message_id is None else (self.new.origin, self.new.source_message_id)


def enqueue(items: Sequence[Checked], *, now: datetime, gate: timedelta) -> Step[list[Answer]]:
    """Store a set of messages, each once, in the order given within each session; one answer for each. A whole transaction."""
    strands, known = yield from _lock_and_look_up(items)
    answers: list[Answer | None] = [None] * len(items)
    fresh: list[int] = []
    first_of: dict[tuple[str, str], int] = {}
    for position, item in enumerate(items):
        source = item.source
        if source in known:
            answers[position] = _duplicate(item, known[source])
        elif (strand := strands.get(item.new.session_id)) is None:
            answers[position] = unknown_session(item.new.session_id)
        elif strand.state == "closed":
            answers[position] = closed_session(item.new.session_id)
        elif source is None or first_of.setdefault(source, position) == position:
            fresh.append(position)
    rows, places = [], Places()
    for position in fresh:
        item = items[position]
        seq = places.take(item.new.session_id, strands[item.new.session_id].next_seq, position)
        rows.append(_columns(item, seq, now))

    def lengthen(stored: Iterable[tuple[str, int]]) -> Statement:
        lengthened = [(*each, strands[each[0]].due(now, gate)) for each in places.lengthened(stored)]
        return queries.lengthen(rows=lengthened)  # type: ignore[no-any-return]

    if rows and not any(item.source or item.position for item in items):
        # Nothing can be refused and nothing moves: it takes no answer to know the rest.
        return (
            yield from ending(
                queries.insert(rows=rows),
                lengthen(places.positions),
                again=[queries.stored(rows=list(places.positions))],
                result=lambda stored: _answer_stored(places.all_of(stored), places, answers),
            )
        )
    if rows:
        stored = yield queries.insert(rows=rows)
        _answer_stored(stored, places, answers)
        if stored:
            yield lengthen((session_id, seq) for session_id, seq, _ in stored)
    yield from _answer_the_rest(items, answers)
    yield from moving(_reached(items, answers))
    return answers  # type: ignore[return-value]


def _answer_stored(stored: Iterable[Row], places: Places, answers: list[Answer | None]) -> list[Answer]:
    """Put in what was stored; the answers to the others stay."""
    for session_id, seq, row_id in stored:
        answers[places.positions[session_id, seq]] = Enqueued(row_id, seq, False, "pending")
    return answers  # type: ignore[return-value]


def _reached(items: Sequence[Checked], answers: Sequence[Answer | None]) -> Iterator[Position]:
    """Where a message is on disk, now or before, its adapter need not look again."""
    for item, answer in zip(items, answers, strict=True):
        if item.position is not None and isinstance(answer, Enqueued | DuplicateMismatch):
            yield item.position


@dataclass(frozen=True, slots=True)
class Locked:
    """A strand under our lock."""

    session_id: str
    state: str
    next_seq: int
    head_seq: int | None
    token: int
    in_flight: bool
    open_count: int

    def due(self, now: datetime, gate: timedelta) -> datetime:
        """When a new head falls due: at once, or, while the session is starting, after the time it is given for that."""
        return now + gate if self.state == "starting" else now


def lock(session_ids: set[str]) -> Step[dict[str, Locked]]:
    """The strands of these sessions, held until the transaction ends."""
    return _locked((yield queries.lock_strands(session_ids=sorted(session_ids))))


def _lock_and_look_up(items: Sequence[Checked]) -> Step[tuple[dict[str, Locked], dict[tuple[str, str], Row]]]:
    """The strands, locked, and what is known of the source ids, seen after the locks were had."""
    session_ids = {item.new.session_id for item in items}
    sources = {item.source for item in items if item.source}
    if not sources:
        return (yield from lock(session_ids)), {}
    locked, known = yield from together(
        queries.lock_strands(session_ids=sorted(session_ids)), queries.duplicates(rows=sorted(sources))
    )
    return _locked(locked), _by_source(known)


def _locked(rows: list[Row]) -> dict[str, Locked]:
    return {row[0]: Locked(row[0], row[1], row[2], row[3], row[4], bool(row[5]), row[6]) for row in rows}


def _by_source(rows: list[Row]) -> dict[tuple[str, str], Row]:
    return {(row[0], row[1]): row for row in rows}


def _answer_the_rest(items: Sequence[Checked], answers: list[Answer | None]) -> Step[None]:
    """Whoever is left was a duplicate of a message in the same set, or of one that another node stored meanwhile."""
    left = [position for position, answer in enumerate(answers) if answer is None]
    if not left:
        return
    sources = {source for position in left if (source := items[position].source)}
    known = _by_source((yield queries.duplicates(rows=sorted(sources))))
    for position in left:
        source = items[position].source
        assert source is not None
        answers[position] = _duplicate(items[position], known[source])


def _duplicate(item: Checked, row: Row) -> Answer:
    _, _, row_id, seq, status, session_id, message_type, content = row
    if (session_id, message_type, content) != (item.new.session_id, item.new.message_type, item.new.content):
        source = printable(item.new.source_message_id)
        return DuplicateMismatch(f"Source id {source} was used before for another message; give this one its own.")
    return Enqueued(row_id, seq, True, status)


def _columns(item: Checked, seq: int, now: datetime) -> tuple[object, ...]:
    new = item.new
    return (
        new.session_id,
        seq,
        new.origin,
        new.message_type,
        new.content,
        item.payload_json,
        new.actor_id,
        new.actor_name,
        new.actor_avatar_url,
        new.source_message_id,
        new.source_channel_id,
        now,
        checksum(
            *(new.session_id, new.origin, new.message_type, new.content, item.payload_json),
            *(new.actor_id, new.actor_name, new.actor_avatar_url),
        ),
        item.trace,
    )


def close(session_id: str, *, now: datetime, reason: str | None = None) -> Step[int]:
    """Expire all that is open and fence out whoever delivers; answers how many."""
    strand = (yield from lock({session_id})).get(session_id)
    if strand is None:
        return 0
    if strand.head_seq is not None:
        yield queries.expire_open(session_id=session_id, head_seq=strand.head_seq, now=now, reason=reason)
    yield queries.close_strand(session_id=session_id)
    return strand.open_count


def next_heads(after: Sequence[tuple[str, int]]) -> Step[dict[str, int | None]]:
    """The next open row of each session behind the given one: nearly always the very next."""
    if not after:
        return {}
    heads: dict[str, int | None] = {session_id: seq + 1 for session_id, seq in after}
    still_open = {session_id for (session_id,) in (yield queries.open_rows(rows=list(heads.items())))}
    for session_id, seq in after:
        if session_id not in still_open:
            rows = yield queries.first_open(session_id=session_id, seq=seq)
            heads[session_id] = rows[0][0] if rows else None
    return heads


def hasten(session_id: str, seq: int, now: datetime) -> Step[None]:
    """Make a waiting head due."""
    yield queries.hasten(session_id=session_id, now=now)
    yield queries.hasten_row(session_id=session_id, seq=seq, now=now)
