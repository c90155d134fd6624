"""What happened in a story, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Protocol

from tests.simulation.chronicle import Chronicle

_FAULTS = {
    "kill": "killed",
    "suspended": "suspended",
    "wedged": "blocked",
    "store": "calls to the store cut or failed",
    "odd": "calls to the store cut or failed",
    "clock": "clocks off or ahead",
}
_UNSAID = "done by the target and not said"
"""Every other fault: its words begin with what was done."""


class Tried(Protocol):
    """One call of a target."""

    done: bool


def figures(chronicle: Chronicle, *, messages: int, deliveries: Collection[Tried]) -> Counter[str]:
    """How much there was to do, how often it was tried, and what came between."""
    counted = Counter(_FAULTS.get(fault.kind.partition(" ")[0], _UNSAID) for fault in chronicle.faults)
    killed = {fault.node for fault in chronicle.faults if fault.kind == "kill"}
    counted["told to stop or cancelled"] = len(chronicle.ended_nodes - killed)
    counted["messages"] = messages
    counted["deliveries begun"] = len(deliveries)
    counted["deliveries done"] = sum(each.done for each in deliveries)
    return counted
