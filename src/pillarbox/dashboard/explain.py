"""Why and when a message will or will not be tried again, in one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from pillarbox.dashboard.words import distance, instant
from pillarbox.hooks.model import HookRecord
from pillarbox.inbound.model import InboundMessage, QueueHead
from pillarbox.outbound.model import OutboundMessage


@dataclass(frozen=True, slots=True)
class Outlook:
    """A sentence and the colour it is told in."""

    tone: str
    sentence: str


def of_outbound(message: OutboundMessage) -> Outlook:
    """What will become of a message on its way out."""
    error = _error(message.error_message)
    match message.status:
        case "pending" if _is_later(message.next_attempt_at):
            return Outlook("idle", f"It is scheduled and will be sent {_at(message.next_attempt_at)}.")
        case "pending":
            return Outlook("idle", "It is ready and will be sent as soon as a worker has a free place.")
        case "processing":
            since = _at(message.last_attempt_at)
            return Outlook("busy", f"Attempt {message.attempt_count} began {since} and is running now.")
        case "retrying":
            left = max(0, attempt_limit(message) - message.attempt_count)
            return Outlook(
                "warn",
                f"Attempt {message.attempt_count} did not succeed{error} It will be tried again "
                f"{_at(message.next_attempt_at)}; {_times(left)} left.",
            )
        case "sent":
            taker = message.provider or "The provider"
            return Outlook("good", f"{taker} accepted it {_at(message.sent_at)}; it will not be sent again.")
        case "delivered":
            return Outlook("good", f"It was delivered {_at(message.delivered_at)} and will not be sent again.")
        case "bounced":
            return Outlook("bad", f"It was accepted and then returned{error} It will not be tried again.")
        case "failed" if message.attempt_count >= attempt_limit(message):
            tried = _times(message.attempt_count)
            return Outlook(
                "bad",
                f"It failed in {tried}{error} It will not be tried again by itself; a retry gives it as many more.",
            )
        case "failed":
            return Outlook("bad", f"It was refused for good{error} It will not be tried again unless you retry it.")
        case "canceled":
            return Outlook("idle", f"It was canceled and will not be sent{error}")
        case _:
            return Outlook(
                "idle", f"Its time was over before it could be sent{error} It will not be tried again by itself."
            )


def of_inbound(message: InboundMessage, head: QueueHead | None) -> Outlook:
    """What will become of a message on its way to a session."""
    match message.status:
        case "delivered":
            return Outlook("good", f"It was delivered {_at(message.processed_at)}.")
        case "expired":
            return Outlook(
                "idle",
                f"It expired {_at(message.processed_at)}{_error(message.last_error)} It will not be tried again.",
            )
        case "processing":
            return Outlook(
                "busy", f"Attempt {message.attempt_count} began {_at(message.locked_at)} and is running now."
            )
        case "failed":
            return Outlook(
                "warn",
                f"Attempt {message.attempt_count} did not succeed{_error(message.last_error)} It will be tried again "
                f"{_at(message.next_retry_at)}, and what came after it in its session waits for it.",
            )
        case _ if head is not None and head.id != message.id:
            return Outlook(
                "idle", f"It waits for message {head.id}, which is before it in its session and {head.status}."
            )
        case _ if _is_later(message.next_retry_at):
            return Outlook("idle", f"It is next in its session and will be tried {_at(message.next_retry_at)}.")
        case _:
            return Outlook(
                "idle", "It is next in its session and will be delivered as soon as a worker has a free place."
            )


def of_hook(event: HookRecord) -> Outlook:
    """What will become of an agent's event."""
    match event.status:
        case "delivered":
            return Outlook("good", f"Everybody who listens took it {_at(event.delivered_at)}.")
        case "superseded":
            later = f"event {event.superseded_by}" if event.superseded_by else "a later event"
            return Outlook(
                "idle", f"It was not told to listeners, because {later} says the same and came in the same burst."
            )
        case "dead":
            return Outlook(
                "bad",
                f"It was closed with an error{_error(event.last_error)} It will not be tried again unless you retry it.",
            )
        case "processing":
            return Outlook("busy", f"Attempt {event.attempt_count} began {_at(event.locked_at)} and is running now.")
        case "failed":
            return Outlook(
                "warn",
                f"Attempt {event.attempt_count} did not succeed{_error(event.last_error)} It will be tried again "
                f"{_at(event.next_attempt_at)}, and its session's later events wait for it.",
            )
        case _:
            return Outlook("idle", "It waits for its turn in its session.")


def attempt_limit(message: OutboundMessage) -> int:
    """The number of its last attempt: an operator's retry gives as many further ones as it had."""
    retried = [event.at for event in message.events if event.type == "retried"]
    if not retried:
        return message.max_attempts
    before = sum(1 for attempt in message.attempts if attempt.finished_at and attempt.finished_at <= retried[-1])
    return before + message.max_attempts


def _error(error: str | None) -> str:
    return f": {error.rstrip('.')}." if error else "."


def _times(number: int) -> str:
    return "1 attempt" if number == 1 else f"{number or 'no'} attempts"


def _is_later(at: datetime | None) -> bool:
    return at is not None and at > datetime.now(UTC)


def _at(at: datetime | None) -> str:
    return "soon" if at is None else f"{distance(at)} ({instant(at)})"
