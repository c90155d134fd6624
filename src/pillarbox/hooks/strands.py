"""Taking events in: the steps that write strands from the producers' side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from pillarbox.hooks.model import Stored
from pillarbox.sessions.registry import unknown_session
from pillarbox.storage import Step, checksum, load_queries, together

queries = load_queries("pillarbox.hooks")

Answer = Stored | Exception


@dataclass(frozen=True, slots=True)
class Checked:
    """A new event that passed the edge; one that was spooled has a key, so that it is stored once."""

    session_id: str
    event_type: str
    payload_json: str
    created_at: datetime
    key: str | None = None
    trace: str | None = None


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
    rows = yield queries.lock_strands(session_ids=sorted(set(session_ids)))
    return {row[0]: Locked(row[0], row[1], row[2], row[3], bool(row[4])) for row in rows}


def enqueue(items: Sequence[Checked], *, now: datetime) -> Step[list[Answer]]:
    """Store a set of events, in the order given within each session; one answer for each."""
    strands = yield from _lock_or_open({item.session_id for item in items})
    fresh = [position for position, item in enumerate(items) if item.session_id in strands]
    answers: list[Answer] = [unknown_session(item.session_id) for item in items]
    if fresh:
        yield from _insert(items, fresh, strands, answers, now)
    return answers


def _lock_or_open(session_ids: set[str]) -> Step[dict[str, Locked]]:
    strands = yield from lock(session_ids)
    if missing := session_ids - strands.keys():
        yield queries.open_strands(session_ids=sorted(missing))
        strands |= yield from lock(missing)
    return strands


def _insert(
    items: Sequence[Checked], fresh: Sequence[int], strands: dict[str, Locked], answers: list[Answer], now: datetime
) -> Step[None]:
    next_seq = {session_id: strand.next_seq for session_id, strand in strands.items()}
    rows, places = [], {}
    for position in fresh:
        item = items[position]
        seq = next_seq[item.session_id]
        next_seq[item.session_id] = seq + 1
        places[item.session_id, seq] = position
        sum_ = checksum(item.session_id, item.event_type, item.payload_json)
        told = (item.event_type, item.key, item.created_at, item.payload_json, sum_, item.trace)
        rows.append((item.session_id, seq, *told))
    heads: dict[str, int] = {}
    added: Counter[str] = Counter()
    for session_id, seq, row_id in (yield queries.insert(rows=rows, now=now)):
        answers[places.pop((session_id, seq))] = Stored(row_id)
        heads[session_id] = min(seq, heads.get(session_id, seq))
        added[session_id] += 1
    if places:
        yield from _answer_known(items, list(places.values()), answers)
    if heads:
        lengthened = [(key, next_seq[key], added[key], heads[key]) for key in sorted(heads)]
        yield queries.lengthen(rows=lengthened, now=now)


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
