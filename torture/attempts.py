"""How many attempts may be counted that nobody saw: a claim that comes to nothing needs a fault, too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from torture.blame import is_everywhere
from torture.evidence import Entry, Event, Evidence, Message

_SILENT = frozenset({"clock", "caller killed", "receiver killed"})
_CLOSED_ON = 2
"""A target that hangs up takes the next request on that connection with it; more often in a row is not by chance."""

_ILL_MANNERED = 5
"""As many attempts as there can be while it hangs up on a third of its callers."""


def counted(evidence: Evidence, pipe: str, rows: list[Message] | list[Event]) -> Iterator[str]:
    """Each arrival is an attempt of its own, none is above the count, and what is counted beyond them has its faults."""
    came: dict[int, list[Entry]] = defaultdict(list)
    for entry in evidence.arrived(pipe):
        came[entry["id"]].append(entry)
    born = {entry["id"]: entry["began"] for entry in evidence.noted(pipe, "acknowledged")}
    closed = {entry["session"]: entry["at"] for entry in evidence.noted(pipe, "closed")}
    for row in rows:
        attempts = [entry["attempt"] for entry in came[row.id]]
        if len(set(attempts)) != len(attempts):
            yield f"{pipe} {row.id} came with the attempts {attempts}"
        elif attempts and max(attempts) > row.attempts:
            yield f"{pipe} {row.id} came with attempt {max(attempts)} and counts {row.attempts}"
        else:
            last = came[row.id][-1]["at"] if came[row.id] else closed.get(row.session, float("inf"))
            if are_too_many(evidence, row.attempts - len(attempts), born.get(row.id, 0.0), last):
                yield f"{pipe} {row.id} counts {row.attempts} attempts and came {len(attempts)} times"


def are_too_many(evidence: Evidence, unseen: int, born: float, last: float) -> bool:
    """Whether more attempts were unseen than the faults of this time can have cost a message: one for each node that felt it."""
    if unseen <= _CLOSED_ON:
        return False
    found = _CLOSED_ON
    for fault in evidence.faults:
        if fault["fault"] not in _SILENT and fault["at"] <= last and fault["until"] + evidence.lease >= born:
            bad_manners = fault["fault"] == "target"
            found += _ILL_MANNERED if bad_manners else evidence.nodes if is_everywhere(fault) else 1
    return unseen > found
