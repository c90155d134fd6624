"""What must never happen to the keys of an inbox."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from pillarbox.storage import instant
from tests.simulation.watching import Delivery, Watch

_KEYS = "SELECT key, status, lease_id, owner, lease_until, attempts, result FROM inbox"


class Seen(NamedTuple):
    key: str
    status: str
    lease_id: str
    owner: str
    lease_until: str | None
    attempts: int
    result: str | None


@dataclass(slots=True, kw_only=True)
class InboxWatch(Watch):
    """One holder at a time, marks only by the holder, and a processed key for ever, after every commit and at every body."""

    keys: dict[str, Seen] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    marked: set[str] = field(default_factory=set)
    begun: int = 0

    def committed(self, by: str, now: datetime) -> None:
        before, self.keys = self.keys, {row[0]: Seen(*row) for row in self.store.rows(_KEYS)}
        for key, seen in self.keys.items():
            old = before.get(key)
            if old is not None and old != seen:
                self._check_change(old, seen, by, now)
        for gone in before.keys() - self.keys.keys():
            self.problem(f"{gone} is forgotten")

    def _check_change(self, old: Seen, seen: Seen, by: str, now: datetime) -> None:
        if old.status != seen.status:
            self.say(f"{by}: {seen.key} {old.status} -> {seen.status}")
        if old.status == "processed":
            self.problem(f"{seen.key} was processed and became {seen.status}")
        if seen.lease_id != old.lease_id:
            self._check_taken(old, seen, by, now)
        elif seen.attempts != old.attempts:
            self.problem(f"{seen.key} counts {seen.attempts} attempts under one lease")
        elif seen.status != old.status and by != old.owner:
            self.problem(f"{by} changed {seen.key}, which is {old.owner}'s")
        if seen.status == "processed":
            done = [each for each in self.tries(seen.key) if each.node == seen.owner and each.done]
            if not done:
                self.problem(f"{seen.key} counts as processed by {seen.owner}, who did not do it")

    def _check_taken(self, old: Seen, seen: Seen, by: str, now: datetime) -> None:
        if seen.status != "leased" or seen.attempts != old.attempts + 1:
            self.problem(f"{seen.key} changed hands as {seen}")
        if old.status != "leased" or self.clocks_differ:
            return
        assert old.lease_until is not None
        if instant(old.lease_until) > now:
            self.problem(f"{by} took {seen.key}, which {old.owner} holds")
        elif not self.disturbed(old.owner):
            self.problem(f"the lease of {seen.key} ran out although {old.owner} was well")

    def began(self, node: str, key: str) -> Delivery:
        """A body begins: nobody else may be at work on the key who can know that the lease is over."""
        self.say(f"{node} begins {key}")
        if key in self.marked:
            self.problem(f"{node} began {key}, which was acknowledged as processed")
        for other in self.tries(key):
            if other.ended is None and not self.killed(other.node) and not self.stands_still(other.node):
                self.problem(f"{node} began {key} while {other.node} was at it")
        self.begun += 1
        return self.begin(key, self.begun, node)

    def stands_still(self, node: str) -> bool:
        """Whether it was stopped so lately that it cannot know yet what it has lost, or its clock is not to be trusted."""
        now = self.clock.monotonic()
        paused = (fault for fault in self.faults if fault.node == node and fault.kind.startswith("suspended"))
        return self.clocks_differ or any(fault.at <= now <= fault.at + fault.lasts for fault in paused)

    @property
    def messages(self) -> int:
        return len(self.asked)

    def unended(self) -> bool:
        return any(key not in self.keys or self.keys[key].status != "processed" for key in self.asked)

    def held_by(self, node: str) -> list[str]:
        return [seen.key for seen in self.keys.values() if seen.status == "leased" and seen.owner == node]

    def finish(self) -> list[str]:
        for key in sorted(self.asked):
            if key not in self.keys or self.keys[key].status != "processed":
                self.problem(f"{key} was never processed: {self.keys.get(key)}")
        self.check_duplicates(sorted(self.asked))
        return self.problems
