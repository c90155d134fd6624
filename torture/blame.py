"""Which fault explains a repetition: one that lay between an accepted delivery and the next, at the node that made it."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

from torture.evidence import Entry, Evidence

EVERYWHERE = frozenset({"postgres restarted", "postgres away", "full disk", "fsync error", "starved"})
"""Faults that every node feels; where one process writes at a time, so is one that stood still, perhaps holding the lock."""

_LINGERING = EVERYWHERE | {"cut", "black hole", "commit cut", "paused"}
"""A claim that had to wait for the database begins with less of its lease left, so that these are felt for a lease longer."""

_UNFELT = frozenset({"clock", "target", "sigterm", "caller killed"})
"""These explain nothing: no wait follows the wall clock, bad manners show in the answers, a stop waits for deliveries."""

_ACCEPTED = ("ok", "hang up")
_BEFORE = 0.05


class Faults:
    """The faults of a round, by the node they hit."""

    def __init__(self, evidence: Evidence) -> None:
        self._by_node: dict[str | None, list[Entry]] = defaultdict(list)
        for fault in evidence.faults:
            if fault["fault"] not in _UNFELT:
                everywhere = fault["fault"] in EVERYWHERE or (evidence.one_writer and fault["fault"] == "paused")
                place = None if everywhere else fault["node"]
                longer = evidence.lease if fault["fault"] in _LINGERING else 0.0
                self._by_node[place].append(fault | {"until": fault["until"] + longer})

    def between(self, first: float, second: float, node: str | None) -> Entry | None:
        """A fault at this node, or at any where the node is not known, that was going on in this time."""
        places = [None, node] if node else list(self._by_node)
        for place in places:
            for fault in self._by_node.get(place, ()):
                if fault["at"] <= second and fault["until"] >= first - _BEFORE:
                    return fault
        return None


def unexplained(evidence: Evidence, pipe: str) -> Iterator[str]:
    """Deliveries that were made again although the one before had been accepted and no fault came between."""
    faults = Faults(evidence)
    last: dict[object, Entry] = {}
    for entry in evidence.arrived(pipe):
        before = last.get(entry["id"])
        last[entry["id"]] = entry
        if before is None or before["answer"] not in _ACCEPTED:
            continue
        # One that comes late, from a worker that stood still meanwhile, is that worker's fault and not the first one's.
        late = entry.get("attempt", 0) < before.get("attempt", 0)
        node = entry["node"] if late else before.get("node")
        if faults.between(before["at"], entry["at"], node) is None:
            yield (
                f"{pipe} {entry['id']} came at {before['at']:.3f} ({before.get('node')}), was accepted, "
                f"and came again at {entry['at']:.3f} ({entry.get('node')}) with no fault between"
            )


def accepted(evidence: Evidence, pipe: str) -> dict[object, list[Entry]]:
    """What the target said yes to."""
    found: dict[object, list[Entry]] = defaultdict(list)
    for entry in evidence.arrived(pipe):
        if entry["answer"] in _ACCEPTED:
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
