"""Which events of a burst are worth delivering: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from pillarbox.storage import Row, is_intact, is_legible

CRITICAL = frozenset({"session_start", "user_prompt_submit", "agent_stop", "session_end", "notification", "error"})
"""Never dropped, merged or moved; every other type, known or not, is bursty."""


class Mark(msgspec.Struct, frozen=True, gc=False):
    """An open event, as much of it as it takes to decide; and all of it, where it was read already.

    One that was damaged on disk may have been of any type.
    """

    id: int
    seq: int
    event_type: str
    size: int = 0
    row: Row | None = None
    damaged: bool = False


def mark_from(row: Row) -> Mark:
    """What a look at the first rows brings; of a large one, whose payload is not read yet, only the type can be judged."""
    row_id, session_id, seq, event_type, _, _, _, payload, _, stored, _, size = row
    if payload is None:
        return Mark(row_id, seq, event_type, size, damaged=not is_legible(event_type))
    damaged = event_type not in CRITICAL and not is_intact(stored, session_id, event_type, payload)
    return Mark(row_id, seq, event_type, size, row, damaged)


@dataclass(frozen=True, slots=True)
class Run:
    """What to deliver, in order; what need not be, and by what each was superseded; whether a burst may go on behind it."""

    kept: tuple[Mark, ...]
    superseded: tuple[tuple[Mark, Mark], ...]
    open_ended: bool


def coalesce(marks: Sequence[Mark]) -> Run:
    """Between two critical events only the latest of each bursty type is kept; a damaged one counts as critical."""
    kept: list[Mark] = []
    superseded: list[tuple[Mark, Mark]] = []
    burst: list[Mark] = []

    def end_burst() -> None:
        latest = {mark.event_type: mark for mark in burst}
        for mark in burst:
            last = latest[mark.event_type]
            if mark is last:
                kept.append(mark)
            else:
                superseded.append((mark, last))
        burst.clear()

    for mark in marks:
        if mark.event_type in CRITICAL or mark.damaged:
            if burst:
                end_burst()
            kept.append(mark)
        else:
            burst.append(mark)
    open_ended = bool(burst)
    end_burst()
    return Run(tuple(kept), tuple(superseded), open_ended)


def begin(kept: Sequence[Mark], *, limit: int, most_bytes: int) -> tuple[Mark, ...]:
    """The first of these that may be in memory at once: always one, then up to so many and so much."""
    taken: list[Mark] = []
    size = 0
    for mark in kept[:limit]:
        size += mark.size
        if taken and size > most_bytes:
            break
        taken.append(mark)
    return tuple(taken)
