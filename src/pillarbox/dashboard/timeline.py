"""Everything that happened to a message, in one line of time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pillarbox.audit import OperatorAction
from pillarbox.dashboard.words import span
from pillarbox.hooks.model import HookRecord
from pillarbox.inbound.model import InboundMessage
from pillarbox.outbound.model import Attempt, Event, OutboundMessage

_OUTCOMES = {
    "accepted": ("good", "was accepted"),
    "rejected": ("bad", "was refused for good"),
    "transient": ("warn", "did not succeed"),
    "unknown": ("warn", "ended without anybody knowing how"),
    None: ("busy", "is running"),
}
_EVENTS = {
    "queued": ("idle", "Queued"),
    "canceled": ("idle", "Canceled"),
    "retried": ("busy", "Queued again by an operator"),
    "delivered": ("good", "Delivered"),
    "sent": ("good", "Sent"),
    "bounced": ("bad", "Bounced"),
    "failed": ("bad", "Failed"),
    "expired": ("idle", "Expired"),
    "forgotten": ("idle", "Forgotten"),
}

_CAUSES = {"retried": "retry", "canceled": "cancel"}
_TOGETHER = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Moment:
    """One thing that happened; of an attempt that did not end well also what was asked and answered."""

    at: datetime
    tone: str
    title: str
    said: str = ""
    details: tuple[str, ...] = ()
    asked: str = ""
    answered: str = ""


def of_outbound(message: OutboundMessage, actions: Sequence[OperatorAction]) -> list[Moment]:
    moments = [_attempt(attempt, message.provider_msg_id) for attempt in message.attempts]
    left = list(actions)
    for event in message.events:
        tone, title = _EVENTS.get(event.type, ("idle", event.type.capitalize()))
        act = _cause_of(event, left)
        if act is not None:
            left.remove(act)
        moments.append(Moment(event.at, tone, title, details=(act.who,) if act else ()))
    if message.status == "retrying" and message.next_attempt_at is not None:
        moments.append(Moment(message.next_attempt_at, "idle", f"Attempt {message.attempt_count + 1} is due"))
    return _in_order([*moments, *_acts(left)])


def of_inbound(message: InboundMessage, actions: Sequence[OperatorAction]) -> list[Moment]:
    moments = [Moment(message.created_at, "idle", f"Received from {message.origin}")]
    if message.locked_at is not None and message.status == "processing":
        moments.append(Moment(message.locked_at, "busy", f"Attempt {message.attempt_count} is running"))
    if message.status == "failed" and message.next_retry_at is not None:
        said = message.last_error or ""
        moments.append(
            Moment(message.next_retry_at, "warn", f"Attempt {message.attempt_count + 1} is due", f"Last error: {said}")
        )
    if message.processed_at is not None and not (message.status == "expired" and _was_told(actions, "expire")):
        delivered = message.status == "delivered"
        title = f"Delivered by attempt {message.attempt_count}" if delivered else "Expired"
        moments.append(Moment(message.processed_at, "good" if delivered else "idle", title))
    if message.confirmed_at is not None:
        moments.append(Moment(message.confirmed_at, "good", "Confirmed: the agent said that it has it"))
    return _in_order([*moments, *_acts(actions)])


def of_hook(event: HookRecord, actions: Sequence[OperatorAction]) -> list[Moment]:
    moments = [Moment(event.created_at, "idle", "Stored")]
    if event.locked_at is not None and event.status == "processing":
        moments.append(Moment(event.locked_at, "busy", f"Attempt {event.attempt_count} is running"))
    if event.status == "failed" and event.next_attempt_at is not None:
        said = event.last_error or ""
        moments.append(
            Moment(event.next_attempt_at, "warn", f"Attempt {event.attempt_count + 1} is due", f"Last error: {said}")
        )
    if event.delivered_at is not None:
        words = {"delivered": ("good", "Delivered"), "dead": ("bad", "Dead: closed with an error")}
        moments.append(Moment(event.delivered_at, *words.get(event.status, ("idle", event.status.capitalize()))))
    return _in_order([*moments, *_acts(actions)])


def _was_told(actions: Iterable[OperatorAction], verb: str) -> bool:
    return any(act.action == verb and act.outcome == "done" for act in actions)


def _cause_of(event: Event, actions: Sequence[OperatorAction]) -> OperatorAction | None:
    """What an operator did that the event tells of, so that it is not told twice; both were written in one transaction."""
    verb = _CAUSES.get(event.type)
    causes = [act for act in actions if act.action == verb and act.outcome == "done"]
    nearest = min(causes, key=lambda act: abs(act.at - event.at), default=None)
    return nearest if nearest is not None and abs(nearest.at - event.at) < _TOGETHER else None


def _attempt(attempt: Attempt, their_id: str | None) -> Moment:
    tone, ended = _OUTCOMES[attempt.outcome]
    details = []
    if attempt.finished_at is not None:
        details.append(f"took {span((attempt.finished_at - attempt.started_at).total_seconds())}")
    if attempt.provider:
        details.append(attempt.provider)
    if attempt.status_code is not None:
        details.append(f"status {attempt.status_code}")
    if attempt.outcome == "accepted" and their_id:
        details.append(f"their id {their_id}")
    return Moment(
        attempt.started_at,
        tone,
        f"Attempt {attempt.attempt} {ended}",
        attempt.error or "",
        tuple(details),
        asked=attempt.request or "",
        answered=attempt.response or "",
    )


def _acts(actions: Iterable[OperatorAction]) -> list[Moment]:
    return [
        Moment(
            act.at,
            "busy" if act.outcome == "done" else "warn",
            f"{act.action.capitalize()} by an operator",
            "" if act.outcome == "done" else f"Refused: {act.outcome}",
            (act.who,),
        )
        for act in actions
    ]


def _in_order(moments: Iterable[Moment]) -> list[Moment]:
    return sorted(moments, key=lambda moment: moment.at)
