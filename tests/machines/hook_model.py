"""The hook outbox as it should be, without a database."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pillarbox.engine import Delivered, Failed, Outcome, Retry, Skipped

LEASE = timedelta(seconds=30)
LONGEST = timedelta(seconds=60)
DEATHS = 3
OPEN = ("pending", "processing", "failed")
CRITICAL = ("session_start", "user_prompt_submit", "agent_stop", "session_end", "notification", "error")


@dataclass(slots=True, eq=False)
class ModelEvent:
    id: int
    seq: int
    event_type: str
    next_at: datetime | None
    waited_for: datetime | None = None
    status: str = "pending"
    attempts: int = 0
    deaths: int = 0
    errs: bool = False
    ended_at: datetime | None = None
    superseded_by: int | None = None

    def end(self, status: str, now: datetime) -> None:
        self.status, self.ended_at, self.next_at = status, now, None

    def take(self) -> None:
        self.status, self.attempts, self.waited_for, self.next_at = "processing", self.attempts + 1, self.next_at, None

    def give_back(self) -> None:
        self.status, self.attempts, self.next_at = "pending", self.attempts - 1, self.waited_for


@dataclass(slots=True)
class ModelStrand:
    rows: list[ModelEvent] = field(default_factory=list)
    held: list[ModelEvent] = field(default_factory=list)
    next_seq: int = 1
    token: int = 0
    due: datetime | None = None
    lease_until: datetime | None = None
    told: list[int] = field(default_factory=list)

    @property
    def unended(self) -> list[ModelEvent]:
        return [row for row in self.rows if row.status in OPEN]

    def enqueue(self, row_id: int, event_type: str, now: datetime) -> ModelEvent:
        return self._append(ModelEvent(row_id, 0, event_type, now), now)

    def revive(self, row: ModelEvent, now: datetime) -> None:
        self.rows.remove(row)
        row.status, row.ended_at, row.next_at = "pending", None, now
        self._append(row, now)

    def hasten(self, row: ModelEvent, now: datetime) -> None:
        if row is self.unended[0] and self.due is not None:
            self.due = min(self.due, now)
            row.next_at = min(row.next_at, now) if row.next_at else None

    def successors(self) -> dict[int, ModelEvent]:
        """By what each event would be superseded now."""
        found = {}
        latest: dict[str, ModelEvent] = {}
        for row in reversed(self.unended):
            if row.event_type in CRITICAL:
                latest = {}
            elif row.event_type in latest:
                found[row.id] = latest[row.event_type]
            else:
                latest[row.event_type] = row
        return found

    def rescue(self, now: datetime) -> None:
        if self.lease_until is None or self.lease_until > now:
            return
        head, *behind = self.held
        head.status, head.deaths, head.errs = "failed", head.deaths + 1, True
        head.next_at = now if head.deaths < DEATHS else now + LONGEST
        for row in behind:
            row.status, row.next_at = "pending", now
        self._let_go(head.next_at)

    def claim(self, now: datetime, limit: int) -> list[ModelEvent]:
        """What a claim takes; call `rescue` before and `supersede` after it."""
        if self.due is None or self.due > now:
            return []
        successors = self.successors()
        self.held = [row for row in self.unended if row.id not in successors][:limit]
        self.token, self.due, self.lease_until = self.token + 1, None, now + LEASE
        for row in self.held:
            row.take()
        return self.held

    def holds(self, token: int) -> bool:
        return self.lease_until is not None and token == self.token

    def settle(self, outcomes: Sequence[Outcome], now: datetime) -> None:
        """Reports on what is held, from its head on; the last one may end the hold."""
        for outcome in outcomes:
            row = self.held.pop(0)
            match outcome:
                case Delivered():
                    row.end("delivered", now)
                    row.errs = False
                    self.told.append(row.seq)
                case Failed():
                    row.end("dead", now)
                    row.errs = True
                case Retry():
                    row.status, row.errs, row.next_at = "failed", True, outcome.at
                case Skipped():
                    row.errs = row.errs or bool(outcome.reason)
                    row.status, row.next_at = "failed" if row.errs else "pending", outcome.at
                    row.attempts -= 1
            if not self.held or not isinstance(outcome, Delivered):
                for behind in self.held:
                    behind.give_back()
                self._let_go(row.next_at or now)

    def prune(self, before: datetime) -> int:
        kept = [row for row in self.rows if row.ended_at is None or row.ended_at >= before]
        pruned, self.rows = len(self.rows) - len(kept), kept
        return pruned

    def _append(self, row: ModelEvent, now: datetime) -> ModelEvent:
        if not self.unended:
            self.due = now
        row.seq, self.next_seq = self.next_seq, self.next_seq + 1
        self.rows.append(row)
        return row

    def _let_go(self, due: datetime | None) -> None:
        self.held, self.lease_until = [], None
        self.due = due if self.unended else None
