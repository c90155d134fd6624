"""What reports on events come to, as columns: pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pillarbox.engine import Delivered, Failed, Retry, Settlement, Skipped, Strand
from pillarbox.hooks.model import HookRow
from pillarbox.hooks.strands import Locked
from pillarbox.text import printable

_LONGEST_ERROR = 1000

Held = Settlement[HookRow]


def what_is_behind(settlement: Held) -> tuple[HookRow, ...]:
    """What the strand holds behind the row that was reported on last."""
    rows = settlement.strand.rows
    return rows[rows.index(settlement.row) + 1 :]


def has_ended(settlement: Held) -> bool:
    return isinstance(settlement.outcome, (Delivered, Failed))


def sorted_out(settlements: Sequence[Held], locked: dict[str, Locked]) -> tuple[dict[str, list[Held]], list[Held]]:
    """The reports to record, by strand and on from its head, and those whose hold is lost.

    One that was recorded before is neither: the engine reports again when it did not hear the answer. One that leaves out a
    row in front of it counts as lost, or that row would be forgotten.
    """
    taken: dict[str, list[Held]] = {}
    lost: list[Held] = []
    heads = {key: strand.head_seq or 0 for key, strand in locked.items()}
    places: dict[str, int] = {}
    strand = None
    for settlement in settlements:
        seq = settlement.row.seq
        if settlement.strand is not strand:
            strand = settlement.strand
            key, rows, held = strand.key, strand.rows, _still_holds(strand, locked)
        if not held or seq > heads[key]:
            lost.append(settlement)
        elif seq == heads[key]:
            if key not in taken:
                taken[key], places[key] = [], rows.index(settlement.row)
            taken[key].append(settlement)
            places[key] = next_place = places[key] + 1
            heads[key] = rows[next_place].seq if next_place < len(rows) else seq + 1
    return taken, lost


def _still_holds(strand: Strand[HookRow], locked: dict[str, Locked]) -> bool:
    now = locked.get(strand.key)
    return now is not None and now.in_flight and now.token == strand.token


def settled_strand(key: str, reported: list[Held], next_head: int | None, now: datetime) -> tuple[object, ...]:
    last = reported[-1]
    ended = sum(map(has_ended, reported))
    match last.outcome:
        case Retry():
            return key, last.row.seq, last.outcome.at, 1, ended, 1
        case Skipped():
            return key, last.row.seq, last.outcome.at, 1, ended, int(_reason(last.row, last.outcome) is not None)
        case _ if not last.ends:
            return key, next_head, None, 0, ended, 0
        case _:
            return key, next_head, None if next_head is None else now, 1, ended, 0


def settled_row(settlement: Held, now: datetime) -> tuple[object, ...]:
    row, outcome = settlement.row, settlement.outcome
    match outcome:
        case Delivered():
            return row.id, "delivered", now, None, None, 1
        case Failed():
            return row.id, "dead", now, None, _storable(outcome.error), 1
        case Retry():
            return row.id, "failed", None, outcome.at, _storable(outcome.error), int(outcome.counts)
        case Skipped():
            reason = _reason(row, outcome)
            return row.id, "pending" if reason is None else "failed", None, outcome.at, reason, 0


def _reason(row: HookRow, skipped: Skipped) -> str | None:
    """Why it waits, where that is known."""
    return _storable(skipped.reason) or row.last_error


def _storable(error: str) -> str:
    """An error's text as every database takes it: a handler may raise anything, NUL and unpaired surrogates included."""
    return printable(error, _LONGEST_ERROR)
