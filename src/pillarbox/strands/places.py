"""Places for new rows at the ends of their strands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pillarbox.errors import Unavailable
from pillarbox.storage import Row


@dataclass(frozen=True, slots=True)
class Places:
    """Which place each row of a set gets in its strand, and where the strands go on after them."""

    positions: dict[tuple[str, int], int] = field(default_factory=dict)
    next_seq: dict[str, int] = field(default_factory=dict)

    def take(self, key: str, free: int, position: int) -> int:
        """A place for the row at this position of the set, in a strand whose first free one is `free`."""
        seq = self.next_seq.get(key, free)
        self.next_seq[key] = seq + 1
        self.positions[key, seq] = position
        return seq

    def lengthened(self, stored: Iterable[tuple[str, int]]) -> list[tuple[str, int, int, int]]:
        """The strands of what was stored: their next places, how much was added, and the first of it."""
        heads: dict[str, int] = {}
        added: Counter[str] = Counter()
        for key, seq in stored:
            heads[key] = min(seq, heads.get(key, seq))
            added[key] += 1
        return [(key, self.next_seq[key], added[key], heads[key]) for key in sorted(heads)]

    def all_of(self, stored: Sequence[Row]) -> Sequence[Row]:
        """The same rows; refused where one of a set that was stored is no longer in its place."""
        if len(stored) < len(self.positions):
            raise Unavailable("What was stored cannot be found again; look for it before it is sent again.")
        return stored
