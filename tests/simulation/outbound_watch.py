"""What must never happen to messages on their way out."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from pillarbox.outbound.beginning import START_WITHIN
from pillarbox.outbound.provider import Outgoing
from pillarbox.storage import instant
from tests.simulation.watching import Delivery, Watch

_QUEUE = """SELECT message_id, tenant_id, state, priority, next_attempt_at, expires_at, attempt_count, last_attempt, contacts,
lease_until, holder, token, claimed_at FROM message_queue"""
_HISTORY = "SELECT message_id, status, attempt_count, max_attempts, subject FROM message_history"
_OPT_OUTS = "SELECT tenant_id, contact FROM message_opt_out"
_ATTEMPTS = "SELECT message_id, attempt, outcome FROM message_attempt ORDER BY message_id, attempt"
WAITING = ("pending", "retrying")
_A_MINUTE = timedelta(seconds=60)
_SKEW = timedelta(seconds=0.25)


class Queued(NamedTuple):
    message_id: str
    tenant_id: str
    state: str
    priority: int
    next_attempt_at: str
    expires_at: str | None
    attempt_count: int
    last_attempt: int
    contacts: str
    lease_until: str | None
    holder: str | None
    token: int
    claimed_at: str | None

    @property
    def place(self) -> tuple[int, str, str]:
        return self.priority, self.next_attempt_at, self.message_id


class Kept(NamedTuple):
    message_id: str
    status: str
    attempt_count: int
    max_attempts: int
    name: str


@dataclass(slots=True, kw_only=True)
class OutboundWatch(Watch):
    """Holds, caps, places in the queue, opt-outs, attempts and endings, after every commit and at every send."""

    per_minute: dict[str, int]
    latency: float
    wanted_within: float | None = None
    flooding: str = ""
    queue: dict[str, Queued] = field(default_factory=dict)
    history: dict[str, Kept] = field(default_factory=dict)
    opt_outs: set[tuple[str, str]] = field(default_factory=set)
    claims: dict[str, list[datetime]] = field(default_factory=lambda: defaultdict(list))
    sends: dict[str, list[datetime]] = field(default_factory=lambda: defaultdict(list))
    acknowledged: dict[str, str] = field(default_factory=dict)
    due: dict[str, datetime] = field(default_factory=dict)
    entered: dict[str, float] = field(default_factory=dict)
    opted_out: set[tuple[str, str]] = field(default_factory=set)
    cancels: set[str] = field(default_factory=set)
    canceled: set[str] = field(default_factory=set)
    retries: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def committed(self, by: str, now: datetime) -> None:
        before, self.queue = self.queue, {row[0]: Queued(*row) for row in self.store.rows(_QUEUE)}
        self.history = {row[0]: Kept(*row) for row in self.store.rows(_HISTORY)}
        self.opt_outs = {(tenant, contact) for tenant, contact in self.store.rows(_OPT_OUTS)}
        for message_id, kept in self.history.items():
            if (kept.status in WAITING) != (message_id in self.queue):
                self.problem(f"{kept} and the queue has {self.queue.get(message_id)}")
        taking: dict[str, tuple[int, str, str]] = {}
        for message_id in sorted(before.keys() | self.queue.keys()):
            old, new = before.get(message_id), self.queue.get(message_id)
            if old is None or old == new:
                continue
            if old.lease_until is not None and (new is None or (new.state, new.token) != (old.state, old.token)):
                assert old.holder is not None
                if old.holder != by or instant(old.lease_until) <= now:
                    self.taken_away(message_id, old.holder, instant(old.lease_until), by=by, now=now)
            if new is None:
                self._check_end(old, self.history[message_id], by, now)
            elif new.token != old.token:
                self._check_claim(old, new, by)
                taking[new.tenant_id] = max(taking.get(new.tenant_id, new.place), new.place)
        self._check_places(taking)

    def name_of(self, row_id: object) -> str:
        return self.history[str(row_id)].name

    def _check_end(self, old: Queued, kept: Kept, by: str, now: datetime) -> None:
        self.say(f"{by}: {kept.name} {old.state} -> {kept.status} attempt {kept.attempt_count}")
        delivery = self.deliveries.get((kept.message_id, kept.attempt_count))
        match kept.status:
            case "sent":
                if old.state != "sending" or delivery is None or not delivery.done:
                    self.problem(f"{kept.name} counts as sent by attempt {kept.attempt_count} and was not")
            case "failed":
                if kept.attempt_count < old.last_attempt and (delivery is None or not delivery.refused):
                    self.problem(f"{kept.name} failed with attempts left")
            case "expired":
                early = old.expires_at is not None and instant(old.expires_at) > now and not self.clocks_differ
                if old.expires_at is None or early:
                    self.problem(f"{kept.name} expired before its time")
            case "canceled":
                if kept.message_id not in self.cancels and not self._unwanted(old):
                    self.problem(f"{kept.name} was canceled and nobody asked for that")

    def _unwanted(self, row: Queued) -> bool:
        return any((row.tenant_id, contact) in self.opt_outs for contact in json.loads(row.contacts))

    def _check_claim(self, old: Queued, new: Queued, by: str) -> None:
        name = self.name_of(new.message_id)
        self.say(f"{by} claims {name} of {new.tenant_id} token {new.token} attempt {new.attempt_count}")
        assert new.claimed_at is not None
        self.claims[new.tenant_id].append(instant(new.claimed_at))
        if new.state != "sending" or new.token != old.token + 1 or new.holder != by:
            self.problem(f"{name} has an odd hold: {new}")
        if new.attempt_count > new.last_attempt:
            self.problem(f"{name} is tried {new.attempt_count} times of {new.last_attempt}")
        # The claim has the time at which it was sent off; when it arrives is the store's affair.
        latest = max(instant(new.claimed_at), self.clock.now()) + _SKEW
        if instant(new.next_attempt_at) > latest and not self.clocks_differ:
            self.problem(f"{name} was claimed before it was due")
        if new.expires_at is not None and instant(new.expires_at) <= instant(new.claimed_at):
            self.problem(f"{name} was claimed after it had expired")
        if self._unwanted(new):
            self.problem(f"{name} was claimed after its recipient's opt-out was stored")

    def _check_places(self, taking: dict[str, tuple[int, str, str]]) -> None:
        for row in self.queue.values():
            if row.state == "ready" and row.tenant_id in taking and row.place < taking[row.tenant_id]:
                self.problem(f"{self.name_of(row.message_id)} of {row.tenant_id} was passed by a less urgent message")

    def began(self, node: str, message: Outgoing) -> Delivery:
        row, name = self.queue.get(message.message_id), message.subject
        self.say(f"{node} sends {name} attempt {message.attempt}")
        delivery = self.begin(message.message_id, message.attempt, node)
        self.sends[message.tenant_id].append(self.clock.now())
        if not self.clocks_differ:
            held = row is not None and row.holder == node and row.attempt_count == message.attempt
            if not held or row is None or self.is_over(row.lease_until):
                self.problem(f"{node} began {name} under a lease that was over")
            due = None if self.retries[message.message_id] else self.due.get(message.message_id)
            if due is not None and self.clock.now() < due - _SKEW:
                self.problem(f"{name} was sent before its time")
            if row is not None and row.expires_at is not None:
                latest = instant(row.expires_at) + START_WITHIN + _SKEW
                if self.clock.now() > latest:
                    self.problem(f"{name} was begun long after it had expired")
        for address in (message.to, *message.cc):
            if (message.tenant_id, address) in self.opted_out:
                self.problem(f"{name} was begun after the opt-out of {address} was acknowledged")
        if message.message_id in self.canceled:
            self.problem(f"{name} was begun after its cancel was acknowledged")
        self._check_turn(message)
        return delivery

    def _check_turn(self, message: Outgoing) -> None:
        """Nobody else's flood makes a tenant wait."""
        entered = self.entered.pop(message.message_id, None)
        if self.wanted_within is None or entered is None or message.tenant_id == self.flooding:
            return
        if (waited := self.clock.monotonic() - entered) > self.wanted_within:
            self.problem(f"{message.subject} of {message.tenant_id} waited {waited:.3f} s for its turn")

    @property
    def messages(self) -> int:
        return len(self.history)

    def unended(self) -> bool:
        return bool(self.queue)

    def held_by(self, node: str) -> list[str]:
        return [self.name_of(row.message_id) for row in self.queue.values() if row.lease_until and row.holder == node]

    def finish(self) -> list[str]:
        for message_id, name in self.acknowledged.items():
            if message_id not in self.history:
                self.problem(f"{name} was acknowledged and is gone")
        for row in self.queue.values():
            self.problem(f"{self.name_of(row.message_id)} has not ended: {row}")
        names = [kept.name for kept in self.history.values()]
        for name in {name for name in names if names.count(name) > 1}:
            self.problem(f"{name} was stored more than once under one key")
        self._check_attempts()
        self._check_caps()
        self.check_duplicates(self.history)
        return self.problems

    def _check_attempts(self) -> None:
        recorded: dict[str, dict[int, str]] = defaultdict(dict)
        for message_id, attempt, outcome in self.store.rows(_ATTEMPTS):
            recorded[message_id][attempt] = outcome
        for kept in self.history.values():
            begun = sorted(attempt for of, attempt in self.deliveries if of == kept.message_id)
            attempts = recorded[kept.message_id]
            if sorted(attempts) != list(range(1, kept.attempt_count + 1)) or not set(begun) <= set(attempts):
                self.problem(f"{kept} has the attempts {attempts} and was begun as {begun}")
            if len(begun) > kept.max_attempts * (1 + self.retries[kept.message_id]):
                self.problem(f"{kept} was begun {len(begun)} times")
            for attempt, outcome in attempts.items():
                delivery = self.deliveries.get((kept.message_id, attempt))
                if outcome == "accepted" and (delivery is None or not delivery.done):
                    self.problem(f"attempt {attempt} of {kept.name} counts as accepted and was not")

    def _check_caps(self) -> None:
        for tenant, per_minute in self.per_minute.items():
            if _within(self.claims[tenant], per_minute, _A_MINUTE):
                self.problem(f"{tenant} claimed more than {per_minute} within a minute")
            # A send may begin so much later than its claim: that is all a window may be out by.
            shorter = _A_MINUTE - START_WITHIN - timedelta(seconds=1 + 4 * self.latency)
            if _within(self.sends[tenant], per_minute, shorter) and not self.clocks_differ:
                self.problem(f"{tenant} sent more than {per_minute} within {shorter}")


def _within(times: Sequence[datetime], most: int, window: timedelta) -> bool:
    """Whether some window holds more than so many."""
    ordered = sorted(times)
    return any(last - first < window for first, last in zip(ordered, ordered[most:], strict=False))
