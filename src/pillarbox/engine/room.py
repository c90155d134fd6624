"""How much a node takes at once, so that no destination can hold all of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Room:
    """Free slots, the most that one destination may hold, and what each holds now."""

    slots: int
    cap: int
    taken: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, concurrency: int, taken: Mapping[str, int]) -> Room:
        """What is left of a node's slots; a destination gets three quarters of them at most, and at least one."""
        return cls(concurrency - sum(taken.values()), max(1, concurrency * 3 // 4), taken)

    def at_most(self, slots: int) -> Room:
        """The same with no more free slots than that."""
        return Room(min(slots, self.slots), self.cap, self.taken)

    @property
    def full(self) -> list[str]:
        """The destinations that may have no more."""
        return sorted(name for name, count in self.taken.items() if count >= self.cap)

    def admit(self, destinations: Sequence[str]) -> tuple[list[int], Room]:
        """Which of the candidates fit, by position, and the room that is left after them."""
        taken = Counter(self.taken)
        slots = self.slots
        fitting = []
        for position, destination in enumerate(destinations):
            if slots > 0 and taken[destination] < self.cap:
                taken[destination] += 1
                slots -= 1
                fitting.append(position)
        return fitting, Room(slots, self.cap, taken)
