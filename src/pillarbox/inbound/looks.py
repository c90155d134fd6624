"""Where a claim looks for what is due: everywhere in turn, and past destinations that are full."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from pillarbox.engine import Room
from pillarbox.inbound.strands import queries
from pillarbox.storage import Statement, Step, together
from pillarbox.strands import PassedOver

_MOST_WALKED = 64
_MOST_LOOKS = 8


class Looks:
    """The looks of one process, which remembers where it has been."""

    def __init__(self, serves: Callable[[], Sequence[str]], passed_over: PassedOver) -> None:
        self.serves = serves
        self._passed_over = passed_over
        self._turns = 0
        self._walked: dict[str, str] = {}

    def for_due(self, room: Room, now: datetime) -> list[Statement]:
        """The most urgent of each; nothing where some destinations are full, which takes a look of its own."""
        if room.full:
            return []
        limit = room.slots + self._passed_over.count
        return [queries.due_heads(served_by=served_by, now=now, full=[], limit=limit) for served_by in self._turned()]

    def elsewhere(self, room: Room, now: datetime) -> Step[list[Statement]]:
        """Where else something is due: a few destinations at a time, going round, so that none is waded through.

        Where such a round finds nothing and has not seen all, everything is looked through.
        """
        looks = []
        limit = room.slots + self._passed_over.count
        serves = self.serves()
        walks = yield from together(
            *(
                queries.due_destinations(
                    served_by=served_by,
                    after=self._walked.get(served_by, ""),
                    steps=_MOST_WALKED,
                    full=room.full,
                    now=now,
                )
                for served_by in serves
            )
        )
        for served_by, walk in zip(serves, walks, strict=True):
            seen_all = len(walk) < _MOST_WALKED and served_by not in self._walked
            if len(walk) == _MOST_WALKED:
                self._walked[served_by] = walk[-1][0]
            else:
                self._walked.pop(served_by, None)
            found = [destination for destination, due in walk if due][:_MOST_LOOKS]
            looks += [
                queries.due_heads_of(served_by=served_by, destination=destination, now=now, limit=limit)
                for destination in found
            ]
            if not found and not seen_all:
                looks.append(queries.due_heads(served_by=served_by, now=now, full=room.full, limit=limit))
        return looks

    def _turned(self) -> list[str]:
        """What this process serves, beginning elsewhere each time so that none of it starves behind the rest."""
        serves = list(self.serves())
        self._turns += 1
        first = self._turns % len(serves)
        return serves[first:] + serves[:first]
