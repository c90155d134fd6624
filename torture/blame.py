"""Which fault explains a repetition, and how many each can explain: no more than was in flight when it struck."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from torture.evidence import Entry, Evidence

EVERYWHERE = frozenset({"postgres restarted", "postgres away", "full disk", "starved"})
"""Faults that every node feels; where one process writes at a time, so is one that stood still while it held the lock."""

_LINGERING = EVERYWHERE | {"fsync error", "cut", "black hole", "commit cut", "paused"}
"""A claim that was asked for while the database was away comes late, with less of its lease left."""

_LINGERS = 3.0
"""Seconds that a claim may come after the fault it was asked for in: the database's timeout."""

_LEASES_LATER = 3
"""What a fault cost is delivered again when its lease is over; where another fault lies in the way, some leases later."""

DATABASE_FAULTS = frozenset(
    {"postgres restarted", "postgres away", "cut", "black hole", "commit cut", "full disk", "fsync error"}
)
"""While these last a process that is told to stop may be unable to record what it has delivered."""

_DEADLY = frozenset({"killed", "fsync error", "sigterm"})
"""After these the others need not wait for the lease: a dead process is known to be dead."""

GOES_ON = 1.0
"""Seconds in which a process that stood still sends what it was about to."""

UNFELT = frozenset({"clock", "target", "caller killed", "receiver killed"})
"""These explain nothing: no wait follows the wall clock, and bad manners show in the answers."""

ACCEPTED = ("ok", "hang up")
_BEFORE = 0.05


class Flying(NamedTuple):
    """What one node can have in flight of a pipe: strands, and rows of each; twice, as it claims while the last ones settle."""

    strands: int
    rows: int

    @property
    def most(self) -> int:
        return 2 * self.strands * self.rows


FLYING = {"inbound": Flying(64, 1), "hooks": Flying(64, 32), "outbound": Flying(128, 1)}
"""The defaults of `concurrency` and, for events, of `strand_limit`."""


class Blame:
    """Lays each repetition of a pipe at one fault's door."""

    def __init__(self, evidence: Evidence, pipe: str) -> None:
        self._lease = evidence.lease
        self._nodes = evidence.nodes
        self._flying = FLYING[pipe]
        self._by_node: dict[str | None, list[tuple[int, Entry]]] = defaultdict(list)
        self._used: Counter[tuple[object, ...]] = Counter()
        for number, fault in enumerate(evidence.faults):
            if fault["fault"] not in UNFELT and (fault["fault"] != "sigterm" or is_hindered(fault, evidence)):
                everywhere = is_everywhere(fault)
                longer = _LINGERS if fault["fault"] in _LINGERING else 0.0
                felt = fault | {"until": fault["until"] + longer, "nodes": self._nodes if everywhere else 1}
                self._by_node[None if everywhere else fault["node"]].append((number, felt))

    def lay(self, first: Entry, again: Entry, strand: object) -> Entry | None:
        """The fault that explains why what was accepted came again; None where none does, or each has explained enough.

        It was going on between the two, at a node that made one of them, and the first was in flight then: an outcome that is
        not known a lease after it came is nobody's any more. Unless it was deadly the second one came when a lease was over, or
        was what a stopped process sent when it went on.
        """
        for number, fault in sorted(self._known(first, again), key=lambda each: self._unlikelihood(first, each[1])):
            in_time = fault["at"] <= again["at"] <= fault["until"] + _LEASES_LATER * self._lease
            if not (self._is_in_flight(first, fault) and in_time and self._lets_go(fault, first, again)):
                continue
            if self._spend(number, fault["nodes"], again["id"], strand):
                return fault
        return None

    def may_be_unknown(self, call: Entry) -> bool:
        """Whether a fault was going on, everywhere or at the node that made it, that can have cost a call's outcome."""
        felt = [*self._by_node[None], *self._by_node[call["node"]]]
        return any(self._is_in_flight(call, fault) for _, fault in felt)

    def _is_in_flight(self, call: Entry, fault: Entry) -> bool:
        return bool(fault["at"] - self._lease <= call["at"] <= fault["until"] + _BEFORE)

    def _known(self, first: Entry, again: Entry) -> list[tuple[int, Entry]]:
        """Whose fault it can be: everybody's, the first one's node's, or that of one which stood still and came late."""
        late = again.get("attempt", 0) < first.get("attempt", 0)
        own = self._by_node[first["node"]] if not late else []
        others = [fault for fault in self._by_node[again["node"]] if late or _comes_late(again, fault[1])]
        return [*self._by_node[None], *own, *(fault for fault in others if fault not in own)]

    def _unlikelihood(self, first: Entry, fault: Entry) -> tuple[bool, float, int]:
        """The nearest first, a node's own before everybody's; last what is far shorter than a lease and no death."""
        short = fault["fault"] not in _DEADLY and fault["until"] - fault["at"] < self._lease / 2 + _LINGERS
        return short, abs(first["at"] - fault["at"]), fault["nodes"]

    def _lets_go(self, fault: Entry, first: Entry, again: Entry) -> bool:
        """Whether a claim can have been another's so soon."""
        if fault["fault"] in _DEADLY or again["at"] - first["at"] >= self._lease - _LINGERS:
            return True
        # What a process sends when it goes on may be the second of the two, or the first: its lease ended while it stood still.
        goes_on = fault["until"] - _LINGERS
        late = [entry for entry in (first, again) if entry["node"] == fault["node"]]
        sent = [entry for entry in late if entry is again or goes_on <= entry["at"]]
        return fault["fault"] == "paused" and any(entry["at"] <= goes_on + GOES_ON for entry in sent)

    def _spend(self, number: int, nodes: int, row: object, strand: object) -> bool:
        budget: dict[tuple[object, ...], int] = {
            (number, "row", row): nodes,
            (number, "strand", strand): nodes * self._flying.rows,
            (number,): nodes * self._flying.most,
        }
        if any(self._used[name] >= most for name, most in budget.items()):
            return False
        self._used.update(budget.keys())
        return True


def _comes_late(call: Entry, fault: Entry) -> bool:
    """Whether a call may be the last one of a process that stood still or was killed: the target may write it down afterwards."""
    gone = min(fault["until"], fault["at"] + GOES_ON)
    return bool(fault["fault"] == "paused" or (fault["fault"] == "killed" and fault["at"] <= call["at"] <= gone))


def is_everywhere(fault: Entry) -> bool:
    return fault["fault"] in EVERYWHERE or bool(fault.get("locked"))


def is_hindered(stop: Entry, evidence: Evidence) -> bool:
    """Whether its database was away from a process while it was told to stop; else it records all that it has delivered."""
    return any(
        (fault["fault"] in DATABASE_FAULTS or fault.get("locked"))
        and (is_everywhere(fault) or fault["node"] == stop["node"])
        and fault["at"] <= stop["until"]
        and fault["until"] >= stop["at"]
        for fault in evidence.faults
    )


def repeated(evidence: Evidence, pipe: str) -> Iterator[tuple[Entry, Entry, Entry | None]]:
    """Each delivery that was accepted, the one that came after it all the same, and the fault that explains it, if any."""
    blame = Blame(evidence, pipe)
    sessions = {event.id: event.session for event in evidence.events}
    last: dict[object, Entry] = {}
    holding: dict[object, Entry | None] = {}
    for entry in evidence.arrived(pipe):
        row, fault = entry["id"], None
        before, holder = last.get(row), holding.get(row)
        if before is not None and before["answer"] in ACCEPTED:
            strand = sessions.get(row) if pipe == "hooks" else entry.get("session", row)
            fault = blame.lay(before, entry, strand) or (blame.lay(holder, entry, strand) if holder else None)
            yield before, entry, fault
        # What a process sends when it goes on changes nothing for whoever holds the row meanwhile, and may lose it yet.
        is_stale = fault is not None and fault["fault"] == "paused" and fault["node"] == entry["node"]
        last[row], holding[row] = entry, before if is_stale else None


def unexplained(evidence: Evidence, pipe: str) -> Iterator[str]:
    """Deliveries that were made again although the one before had been accepted, beyond what the faults explain."""
    for before, entry, fault in repeated(evidence, pipe):
        if fault is None:
            yield (
                f"{pipe} {entry['id']} came at {before['at']:.3f} ({before['node']}), was accepted, "
                f"and came again at {entry['at']:.3f} ({entry['node']}); no fault explains that"
            )


def blamed(evidence: Evidence) -> Counter[str]:
    """How many repetitions of what was accepted each kind of fault explains."""
    found = (fault for pipe in FLYING for _, _, fault in repeated(evidence, pipe))
    return Counter(str(fault["fault"]) for fault in found if fault is not None)


def accepted(evidence: Evidence, pipe: str) -> dict[object, list[Entry]]:
    """What the target said yes to."""
    found: dict[object, list[Entry]] = defaultdict(list)
    for entry in evidence.arrived(pipe):
        if entry["answer"] in ACCEPTED:
            found[entry["id"]].append(entry)
    return found


def in_order(numbers: list[int]) -> bool:
    """Whether the first appearances only grow."""
    seen: list[int] = []
    for number in numbers:
        place = bisect_left(seen, number)
        if place < len(seen) and seen[place] == number:
            continue
        if place < len(seen):
            return False
        seen.append(number)
    return True
