"""How queue, history and attempts end up saying the same: the steps that close or put back what was claimed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import uuid_utils

from pillarbox.engine import Delivered, Retry, Settlement, Skipped
from pillarbox.outbound.attempt import Parcel, Report, report_of
from pillarbox.outbound.model import Channel
from pillarbox.storage import UNREADABLE, Row, Step, legible, together
from pillarbox.text import printable

STRETCH = 1000
_LONGEST_ERROR = 1000
WENT_AWAY = "The process that was sending it went away; nobody knows whether it was sent."
UNSUBSCRIBED = "The provider says that the recipient has unsubscribed."
EXPIRED = "It expired before it could be sent."

Held = Settlement[Parcel]


class Ending(NamedTuple):
    """How a message ends that is not sent, and why."""

    status: str
    reason: str


class Tried(NamedTuple):
    """An attempt that did not end well, the number of the last one there may be, and when the next one is due, if any."""

    message_id: str
    attempt: int
    last_attempt: int
    began: datetime
    report: Report
    at: datetime | None


def settle(queries: Any, settlements: Sequence[Held], now: datetime) -> Step[list[Held]]:
    """Record how attempts ended; answers those whose hold had been lost."""
    if not settlements:
        return []
    if tenants := unsubscribed(settlements):
        yield queries.lock_tenants(tenant_ids=sorted(tenants))
    names = [(settlement.strand.key, settlement.strand.token) for settlement in settlements]
    held = {message_id for (message_id,) in (yield queries.hold(rows=sorted(names)))}
    kept = [settlement for settlement in settlements if settlement.strand.key in held]
    if kept:
        yield from together(*_statements(queries, kept, now))
    return [settlement for settlement in settlements if settlement.strand.key not in held]


def unsubscribed(settlements: Sequence[Held]) -> set[str]:
    """The tenants of messages whose recipients, as their providers say, want no more of them."""
    return {
        settlement.row.tenant_id
        for settlement in settlements
        if not isinstance(settlement.outcome, Skipped) and report_of(settlement.outcome).opt_out
    }


def _statements(queries: Any, kept: Sequence[Held], now: datetime) -> list[Any]:
    again, tried, accepted, opt_outs = [], [], [], []
    for settlement in kept:
        parcel, outcome = settlement.row, settlement.outcome
        if isinstance(outcome, Skipped):
            again.append((parcel.id, outcome.at or now, 1, parcel.last_attempt))
            continue
        report = report_of(outcome)
        if report.opt_out and parcel.contacts:
            opt_outs.append((str(uuid_utils.uuid7()), parcel.id, parcel.contacts[0], UNSUBSCRIBED))
        if isinstance(outcome, Delivered):
            accepted.append((parcel, report))
            continue
        last = min(parcel.last_attempt, parcel.attempt_count + 1) if report.last_chance else parcel.last_attempt
        at = (outcome.at or now) if isinstance(outcome, Retry) and parcel.attempt_count < last else None
        tried.append(Tried(parcel.id, parcel.attempt_count, last, parcel.claimed_at, report, at))
    statements = _accepting(queries, accepted, now) + _recording(queries, tried, now)
    if again:
        statements.append(queries.reschedule(rows=again, now=now))
        later = [(message_id, at) for message_id, at, *_ in again if at > now]
        statements += [queries.postpone_history(rows=later)] if later else []
    if opt_outs:
        statements.append(queries.opt_out_recipients(rows=opt_outs, now=now))
    return statements


def _accepting(queries: Any, accepted: Sequence[tuple[Parcel, Report]], now: datetime) -> list[Any]:
    """Most attempts: nothing went wrong and nothing is left to do."""
    if not accepted:
        return []
    attempts = [(p.id, p.attempt_count, p.claimed_at, report.status_code, report.provider) for p, report in accepted]
    history = [
        (
            parcel.id,
            "delivered" if report.delivered else "sent",
            parcel.attempt_count,
            parcel.claimed_at,
            report.provider,
            report.provider_msg_id,
        )
        for parcel, report in accepted
    ]
    return [
        queries.remove(message_ids=[parcel.id for parcel, _ in accepted]),
        queries.insert_accepted(rows=attempts, now=now),
        queries.settle_accepted(rows=history, now=now),
    ]


def _recording(queries: Any, tried: Sequence[Tried], now: datetime) -> list[Any]:
    """Attempts that did not end well: each is tried again at its time, or has failed."""
    if not tried:
        return []
    attempts, history = [], []
    for each in tried:
        report, error = each.report, None if each.report.error is None else _storable(each.report.error)
        attempts.append(
            (
                *(each.message_id, each.attempt, each.began, report.judgement, report.status_code, report.provider),
                *(error, report.request, report.response),
            )
        )
        status, failed_at = ("failed", now) if each.at is None else ("retrying", None)
        history.append((each.message_id, status, each.attempt, each.at, each.began, failed_at, error, report.provider))
    statements = [queries.insert_attempts(rows=attempts, now=now), queries.settle_history(rows=history, now=now)]
    if again := [(each.message_id, each.at, 0, each.last_attempt) for each in tried if each.at is not None]:
        statements.append(queries.reschedule(rows=again, now=now))
    if ended := [each.message_id for each in tried if each.at is None]:
        statements.append(queries.remove(message_ids=ended))
    return statements


def rescue(queries: Any, overdue: Sequence[Row], now: datetime) -> Step[None]:
    """Attempts whose process went away: nobody knows how they ended; tried again at once while attempts are left."""
    report = Report("unknown", error=WENT_AWAY)
    tried = [
        Tried(message_id, attempt, last, _began(claimed_at, now), report, now if attempt < last else None)
        for message_id, attempt, last, claimed_at in overdue
    ]
    yield from together(*_recording(queries, tried, now))


def _began(claimed_at: str | datetime, now: datetime) -> datetime:
    """When an attempt began; where that was damaged on disk, now: nobody knows better, and others need not wait for it."""
    began = legible(claimed_at)
    return now if began is UNREADABLE else began


def expire(queries: Any, message_ids: Sequence[str], now: datetime) -> Step[None]:
    """Close what nobody wants any more."""
    yield from together(*closing(queries, dict.fromkeys(message_ids, Ending("expired", EXPIRED)), now))


def cancel(queries: Any, reasons: Mapping[str, str], now: datetime) -> Step[None]:
    """Take messages out of the queue, unsent."""
    endings = {message_id: Ending("canceled", reason) for message_id, reason in reasons.items()}
    yield from together(*closing(queries, endings, now))


def closing(queries: Any, endings: Mapping[str, Ending], now: datetime) -> list[Any]:
    """What takes messages out of the queue, each with its own ending."""
    return [queries.remove(message_ids=list(endings)), *_endings(queries, endings, now)]


def _endings(queries: Any, endings: Mapping[str, Ending], now: datetime) -> list[Any]:
    return [
        queries.end_history(rows=[(message_id, *ending) for message_id, ending in endings.items()], now=now),
        queries.insert_events(
            rows=[(message_id, str(uuid_utils.uuid7()), ending.status, None) for message_id, ending in endings.items()],
            now=now,
        ),
    ]


def prune(
    queries: Any, after: str, before: Callable[[Channel], datetime], latest: datetime, limit: int
) -> Step[tuple[int, str | None]]:
    """Delete what ended before its channel's time in the next stretch of the history; how many, and where to go on, if at all.

    Nothing of any channel that came in after `latest` can be old enough.
    """
    rows = yield queries.oldest_messages(after=after, limit=STRETCH)
    ended = [row for row in rows if row[1] not in ("pending", "retrying")]
    over = [row[0] for row in ended if legible(row[3]) < before(row[4])][:limit]
    if over:
        # One that was retried since we looked stays, with all that belongs to it.
        over = [message_id for (message_id,) in (yield queries.prune_history(message_ids=over))]
        yield from together(
            queries.prune_attempts(message_ids=over),
            queries.prune_events(message_ids=over),
            queries.remove_copies(message_ids=over),
        )
    young = len(rows) < STRETCH or latest <= legible(rows[-1][2]) < UNREADABLE
    if len(over) == limit:
        return len(over), after
    return len(over), None if young else rows[-1][0]


def prune_keys(queries: Any, before: datetime, limit: int) -> Step[int]:
    """Forget some idempotency keys that are older than that; how many."""
    return len((yield queries.prune_idempotency_keys(before=before, limit=limit)))


def _storable(error: str) -> str:
    return printable(error, _LONGEST_ERROR)
