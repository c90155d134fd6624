"""What is in the air on one node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Generic

from pillarbox.engine.flight import Flight
from pillarbox.engine.lease import RowT
from pillarbox.telemetry import logger

log = logger(__name__)


class Flights(Generic[RowT]):
    """One flight for each key, and those that have been overtaken by the next of their strand and have not ended yet."""

    def __init__(self) -> None:
        self._newest: dict[str, Flight[RowT]] = {}
        self._overtaken: set[Flight[RowT]] = set()

    def __len__(self) -> int:
        """How many there are, without those that were overtaken."""
        return len(self._newest)

    def __iter__(self) -> Iterator[Flight[RowT]]:
        """All of them, as they are now."""
        return iter((*self._newest.values(), *self._overtaken))

    def get(self, key: str) -> Flight[RowT] | None:
        return self._newest.get(key)

    def begin(self, flight: Flight[RowT]) -> None:
        key = flight.strand.key
        if stale := self._newest.get(key):
            stale.lose_now()
            self._overtaken.add(stale)
        self._newest[key] = flight

    def end(self, flight: Flight[RowT]) -> None:
        self._overtaken.discard(flight)
        if self._newest.get(flight.strand.key) is flight:
            del self._newest[flight.strand.key]

    def call_off(self) -> None:
        for flight in self:
            flight.call_off()

    def tell(self) -> None:
        """Tell of those that are still here after all were called off."""
        for flight in self:
            log.warning(
                "a delivery does not stop; its lease will end", key=flight.strand.key, token=flight.strand.token
            )

    def destinations(self) -> Counter[str]:
        """How many are on their way to each."""
        return Counter(flight.strand.destination for flight in self._newest.values())

    def holds(self) -> set[tuple[str, int]]:
        return {(flight.strand.key, flight.strand.token) for flight in self._newest.values()}
