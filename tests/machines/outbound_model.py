"""The outbound queue as it should be, without a database."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

LEASE = timedelta(seconds=60)
WAITING = ("pending", "retrying")
RETRYABLE = ("failed", "expired", "canceled")


@dataclass(slots=True, eq=False)
class ModelMessage:
    """One message: what is stored of it, and who holds it."""

    id: str
    tenant: str
    contacts: tuple[str, ...]
    priority: int
    due: datetime
    expires_at: datetime | None
    max_attempts: int
    last_attempt: int
    status: str = "pending"
    attempts: list[str] = field(default_factory=list)
    sending: bool = False
    token: int | None = None
    lease_until: datetime | None = None
    ended_at: datetime | None = None

    @property
    def waits(self) -> bool:
        return self.status in WAITING and not self.sending

    @property
    def shown(self) -> str:
        return "processing" if self.sending else self.status

    @property
    def count(self) -> int:
        return len(self.attempts) + self.sending

    def end(self, status: str, now: datetime) -> None:
        self.status, self.sending, self.lease_until, self.ended_at = status, False, None, now

    def take(self, token: int, now: datetime) -> None:
        self.sending, self.token, self.lease_until = True, token, now + LEASE

    def holds(self, token: int) -> bool:
        return self.sending and self.token == token

    def report(self, outcome: str, now: datetime, *, again: datetime | None = None, ending: str = "failed") -> None:
        """An attempt ended: tried again at a time while attempts are left, or over."""
        self.attempts.append(outcome)
        self.sending, self.lease_until = False, None
        if again is not None and len(self.attempts) < self.last_attempt:
            self.status, self.due = "retrying", again
        else:
            self.end(ending, now)

    def give_back(self) -> None:
        self.sending, self.lease_until = False, None

    def revive(self, now: datetime) -> None:
        self.status, self.due, self.expires_at, self.ended_at = "pending", now, None, None
        self.last_attempt = len(self.attempts) + self.max_attempts


@dataclass(slots=True)
class Model:
    """All messages, and whom no tenant may write to."""

    messages: dict[str, ModelMessage] = field(default_factory=dict)
    opted_out: set[tuple[str, str]] = field(default_factory=set)

    def refused(self, message: ModelMessage) -> bool:
        return any((message.tenant, contact) in self.opted_out for contact in message.contacts)

    def tidy(self, now: datetime) -> None:
        """What every claim does before it takes anything."""
        for message in self.messages.values():
            if message.lease_until is not None and message.lease_until <= now:
                message.report("unknown", now, again=now)
            if message.waits and message.expires_at is not None and message.expires_at <= now:
                message.end("expired", now)

    def ready(self, now: datetime) -> dict[str, list[ModelMessage]]:
        """What each tenant has ready, the most urgent first."""
        found: dict[str, list[ModelMessage]] = {}
        for message in sorted(self.messages.values(), key=lambda each: (each.priority, each.due, each.id)):
            if message.waits and message.due <= now:
                found.setdefault(message.tenant, []).append(message)
        return found

    def prune(self, before: datetime) -> int:
        over = [each.id for each in self.messages.values() if each.ended_at is not None and each.ended_at < before]
        for message_id in over:
            del self.messages[message_id]
        return len(over)
