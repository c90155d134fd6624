"""The inbound queue as it should be, in sixty lines without a database."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pillarbox.engine import Delivered, Failed, Outcome, Retry, Skipped

LEASE = timedelta(seconds=300)
LONGEST = timedelta(seconds=300)
DEATHS = 3
OPEN = ("pending", "processing", "failed")


@dataclass(slots=True)
class ModelRow:
    seq: int
    status: str = "pending"
    attempts: int = 0
    deaths: int = 0
    next_at: datetime | None = None


@dataclass(slots=True)
class ModelSession:
    rows: list[ModelRow] = field(default_factory=list)
    closed: bool = False
    token: int = 0
    due: datetime | None = None
    lease_until: datetime | None = None

    @property
    def head(self) -> ModelRow | None:
        return next((row for row in self.rows if row.status in OPEN), None)

    def enqueue(self, now: datetime) -> ModelRow:
        if self.head is None:
            self.due = now
        self.rows.append(ModelRow(len(self.rows) + 1))
        return self.rows[-1]

    def claim(self, now: datetime) -> ModelRow | None:
        head = self.head
        if head and self.lease_until and self.lease_until <= now:
            head.status, head.deaths = "failed", head.deaths + 1
            self._wait(head, now if head.deaths < DEATHS else now + LONGEST)
        if head is None or self.due is None or self.due > now:
            return None
        self.token, self.due, self.lease_until = self.token + 1, None, now + LEASE
        head.status, head.attempts, head.next_at = "processing", head.attempts + 1, None
        return head

    def holds(self, token: int) -> bool:
        return self.lease_until is not None and token == self.token

    def settle(self, outcome: Outcome, now: datetime) -> None:
        head = self.head
        assert head is not None
        match outcome:
            case Delivered():
                head.status = "delivered"
                self._advance(now)
            case Retry():
                head.status = "failed"
                self._wait(head, outcome.at)
            case Skipped():
                head.status, head.attempts = "failed" if head.attempts > 1 else "pending", head.attempts - 1
                self._wait(head, outcome.at)
            case Failed():
                self.close(now)

    def close(self, now: datetime) -> int:
        ended = [row for row in self.rows if row.status in OPEN]
        for row in ended:
            row.status, row.next_at = "expired", None
        self.closed, self.token = True, self.token + 1
        self._advance(now)
        return len(ended)

    def expire(self, row: ModelRow, now: datetime) -> None:
        was_head = row is self.head
        row.status, row.next_at = "expired", None
        if was_head:
            self.token += 1
            self._advance(now)

    def hasten(self, now: datetime) -> None:
        if self.due is not None and self.due > now and self.head:
            self.due = now
            self.head.next_at = now if self.head.next_at else None

    def _advance(self, now: datetime) -> None:
        self.lease_until, self.due = None, now if self.head else None

    def _wait(self, head: ModelRow, at: datetime | None) -> None:
        self.lease_until, self.due, head.next_at = None, at, at
