"""Taking events in: the steps that write strands from the producers' side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from pillarbox.hooks.lone import append
from pillarbox.hooks.model import Checked, Stored
from pillarbox.sessions.registry import unknown_session
from pillarbox.storage import Row, Step, checksum, ending, load_queries, together
from pillarbox.strands import Places

queries = load_queries("pillarbox.hooks")

Answer = Stored | Exception


class StoreOne(Protocol):
    """How an event that comes alone is stored."""

    def __call__(self, item: Checked, *, now: datetime) -> Step[list[Answer]]: ...


_FEW = 8


@dataclass(frozen=True, slots=True)
class Locked:
    """A strand under our lock."""

    session_id: str
    next_seq: int
    head_seq: int | None
    token: int
    in_flight: bool


def lock(session_ids: Iterable[str]) -> Step[dict[str, Locked]]:
    """The strands of these sessions, held until the transaction ends."""
    return _locked((yield queries.lock_strands(session_ids=sorted(set(session_ids)))))


def _locked(rows: Iterable[Row]) -> dict[str, Locked]:
    return {row[0]: Locked(row[0], row[1], row[2], row[3], bool(row[4])) for row in rows}


def enqueue(items: Sequence[Checked], *, now: datetime) -> Step[list[Answer]]:
    """Store a set of events, in the order given within each session; one answer for each."""
    rows, places, answers = yield from _prepare(items)
    if not rows:
        return answers
    stored = yield queries.insert(rows=rows, now=now)
    _answer_stored(stored, places, answers)
    taken = {(session_id, seq) for session_id, seq, _ in stored}
    if known := [position for place, position in places.positions.items() if place not in taken]:
        yield from _answer_known(items, known, answers)
    if taken:
        yield queries.lengthen(rows=places.lengthened(taken), now=now)
    return answers


def enqueue_alone(items: Sequence[Checked], *, now: datetime, store_one: StoreOne = append) -> Step[list[Answer]]:
    """The same as a whole transaction, which ends a round trip sooner where none of the events can have been stored before."""
    if any(item.key for item in items):
        return (yield from enqueue(items, now=now))
    if len(items) == 1:
        return (yield from store_one(items[0], now=now))
    rows, places, answers = yield from _prepare(items)
    if not rows:
        return answers
    return (
        yield from ending(
            queries.insert(rows=rows, now=now),
            queries.lengthen(rows=places.lengthened(places.positions), now=now),
            again=[queries.stored(rows=list(places.positions))],
            result=lambda stored: _answer_stored(places.all_of(stored), places, answers),
        )
    )


def _prepare(items: Sequence[Checked]) -> Step[tuple[list[Row], Places, list[Answer]]]:
    """Lock the strands and give each event its place; the answers to those whose session nobody knows."""
    strands = yield from _lock_or_open({item.session_id for item in items})
    rows, places = [], Places()
    for position, item in enumerate(items):
        if strand := strands.get(item.session_id):
            seq = places.take(item.session_id, strand.next_seq, position)
            sum_ = checksum(item.session_id, item.event_type, item.payload_json)
            told = (item.event_type, item.key, item.created_at, item.payload_json, sum_, item.trace)
            rows.append((item.session_id, seq, *told))
    return rows, places, [unknown_session(item.session_id) for item in items]


def _answer_stored(stored: Iterable[Row], places: Places, answers: list[Answer]) -> list[Answer]:
    """Put in what was stored; the answers to the others stay."""
    for session_id, seq, row_id in stored:
        answers[places.positions[session_id, seq]] = Stored(row_id)
    return answers


def _lock_or_open(session_ids: set[str]) -> Step[dict[str, Locked]]:
    """The strands, locked: those that are there, then those that are opened for it. A few are not worth a look in between."""
    names = sorted(session_ids)
    look = queries.lock_strands(session_ids=names)
    if len(names) <= _FEW:
        *_, rows = yield from together(look, queries.open_strands(session_ids=names), look)
        return _locked(rows)
    strands = _locked((yield look))
    if missing := session_ids - strands.keys():
        yield queries.open_strands(session_ids=sorted(missing))
        strands |= yield from lock(missing)
    return strands


def _answer_known(items: Sequence[Checked], left: Sequence[int], answers: list[Answer]) -> Step[None]:
    """Whoever is left was stored before under the same key."""
    keys = [key for position in left if (key := items[position].key)]
    known = dict((yield queries.by_keys(keys=keys)))
    for position in left:
        answers[position] = Stored(known[items[position].key])


def next_heads(after: Sequence[tuple[str, int]]) -> Step[dict[str, int | None]]:
    """The next open row of each session behind the given one: nearly always the very next."""
    if not after:
        return {}
    heads: dict[str, int | None] = {session_id: seq + 1 for session_id, seq in after}
    still_open = {session_id for (session_id,) in (yield queries.open_rows(rows=list(heads.items())))}
    further = [(session_id, seq) for session_id, seq in after if session_id not in still_open]
    found = yield from together(*(queries.first_open(session_id=session_id, seq=seq) for session_id, seq in further))
    return heads | {key: rows[0][0] if rows else None for (key, _), rows in zip(further, found, strict=True)}
