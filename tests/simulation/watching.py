"""The checker of a pipe: it sees each commit from inside and each delivery from outside, and believes neither."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise

from pillarbox.storage import instant
from tests.simulation.chronicle import Chronicle, Fault
from tests.simulation.store import Store

# A node that is alive comes back to the store within its longest pause of two seconds.
_KEEPS_TRYING = 4.0


@dataclass(slots=True)
class Delivery:
    """One call of a target; `answered` when its answer reached the engine, not `counted` when it says so itself."""

    node: str
    began: float
    done: bool = False
    answered: bool = False
    refused: bool = False
    counted: bool = True
    ended: float | None = None


@dataclass(slots=True, kw_only=True)
class Watch(Chronicle):
    """What the watches of all pipes share."""

    store: Store = field(init=False)
    skew: float = 0.0
    deliveries: dict[tuple[object, int], Delivery] = field(default_factory=dict)
    rescues: dict[object, list[float]] = field(default_factory=dict)

    def committed(self, by: str, now: datetime) -> None:
        raise NotImplementedError

    @property
    def messages(self) -> int:
        """How many came in."""
        raise NotImplementedError

    def unended(self) -> bool:
        """Whether anything still waits that must not wait for ever."""
        raise NotImplementedError

    def held_by(self, node: str) -> list[str]:
        raise NotImplementedError

    def finish(self) -> list[str]:
        raise NotImplementedError

    def name_of(self, row_id: object) -> str:
        return str(row_id)

    @property
    def clocks_differ(self) -> bool:
        return any(fault.kind.startswith("clock") for fault in self.faults)

    def is_over(self, lease_until: str | datetime | None) -> bool:
        """Whether a lease has ended by the clocks of all: whose own is behind counts from there, and holds it so much longer."""
        return lease_until is None or instant(lease_until) + timedelta(seconds=self.skew) <= self.clock.now()

    def begin(self, row_id: object, attempt: int, node: str) -> Delivery:
        if (row_id, attempt) in self.deliveries:
            self.problem(f"attempt {attempt} of {self.name_of(row_id)} was begun twice")
        delivery = Delivery(node, self.clock.monotonic())
        self.deliveries[row_id, attempt] = delivery
        return delivery

    def taken_away(self, row_id: object, holder: str, lease_until: datetime, *, by: str, now: datetime) -> None:
        """A hold ended by another, or after its lease: nobody takes away a lease that is not over."""
        if self.clocks_differ:
            self.rescues.setdefault(row_id, []).append(self.clock.monotonic())
            return
        if lease_until > now:
            self.problem(f"{by} changed {self.name_of(row_id)}, which {holder} holds")
            return
        over = (self.clock.now() - lease_until).total_seconds()
        self.rescues.setdefault(row_id, []).append(self.clock.monotonic() - over)
        if by == holder:
            return
        if not self.disturbed(holder) and holder not in self.ended_nodes:
            self.problem(f"the lease of {self.name_of(row_id)} ran out although {holder} was well")

    def tries(self, row_id: object) -> list[Delivery]:
        found = (each for (of, _), each in self.deliveries.items() if of == row_id)
        return sorted(found, key=lambda each: each.began)

    def successes(self, row_id: object) -> list[Delivery]:
        return [each for each in self.tries(row_id) if each.done]

    def check_duplicates(self, row_ids: Iterable[object]) -> None:
        for row_id in row_ids:
            for first, second in pairwise(self.successes(row_id)):
                if not any(self._explains(fault, row_id, first, second) for fault in self.faults):
                    self.problem(f"{self.name_of(row_id)} was delivered twice, and no fault explains it")

    def _explains(self, fault: Fault, row_id: object, first: Delivery, second: Delivery) -> bool:
        if fault.kind.startswith("clock"):
            return fault.at <= second.began
        if fault.node != first.node or fault.at > second.began or fault.at + fault.lasts < first.began:
            return False
        # While a node lives it keeps trying to settle, so a short trouble of the store is no excuse.
        lost = [at for at in self.rescues.get(row_id, ()) if first.began <= at <= second.began]
        return (
            fault.kind != "store"
            or first.node in self.ended_nodes
            or any(fault.at >= at - _KEEPS_TRYING for at in lost)
        )
