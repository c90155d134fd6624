"""How queue, history and attempts end up saying the same: the steps that close or put back what was claimed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import uuid_utils

from pillarbox.engine import Delivered, Failed, Retry, Settlement, Skipped
from pillarbox.outbound.attempt import Parcel, Report, report_of
from pillarbox.storage import Row, Step, instant, together
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


def settle(queries: Any, settlements: Sequence[Held], now: datetime) -> Step[list[Held]]:
    """Record how attempts ended; answers those whose hold had been lost."""
    if not settlements:
        return []
    names = [(settlement.strand.key, settlement.strand.token) for settlement in settlements]
    held = {message_id for (message_id,) in (yield queries.hold(rows=sorted(names)))}
    kept = [settlement for settlement in settlements if settlement.strand.key in held]
    if kept:
        yield from together(*_statements(queries, kept, now))
    return [settlement for settlement in settlements if settlement.strand.key not in held]


def _statements(queries: Any, kept: Sequence[Held], now: datetime) -> list[Any]:
    ended, again, attempts, history, opt_outs = [], [], [], [], []
    for settlement in kept:
        parcel, outcome = settlement.row, settlement.outcome
        if isinstance(outcome, Skipped):
            again.append((parcel.id, outcome.at or now, 1, parcel.last_attempt))
            continue
        report = report_of(outcome)
        attempts.append(_attempt(parcel, report))
        last = min(parcel.last_attempt, parcel.attempt_count + 1) if report.last_chance else parcel.last_attempt
        if isinstance(outcome, Retry) and parcel.attempt_count < last:
            again.append((parcel.id, outcome.at or now, 0, last))
        else:
            ended.append(parcel.id)
        history.append(_history(parcel, outcome, report, now, tries_again=parcel.attempt_count < last))
        if report.opt_out and parcel.contacts:
            opt_outs.append((str(uuid_utils.uuid7()), parcel.id, parcel.contacts[0], UNSUBSCRIBED))
    statements = []
    if ended:
        statements.append(queries.remove(message_ids=ended))
    if again:
        statements.append(queries.reschedule(rows=again, now=now))
    if attempts:
        statements.append(queries.insert_attempts(rows=attempts, now=now))
        statements.append(queries.settle_history(rows=history, now=now))
    if opt_outs:
        statements.append(queries.opt_out_recipients(rows=opt_outs, now=now))
    return statements


def _attempt(parcel: Parcel, report: Report) -> tuple[object, ...]:
    error = None if report.error is None else _storable(report.error)
    return (
        parcel.id,
        parcel.attempt_count,
        parcel.claimed_at,
        report.judgement,
        report.status_code,
        error,
        report.provider,
    )


def _history(
    parcel: Parcel, outcome: Delivered | Retry | Failed, report: Report, now: datetime, *, tries_again: bool
) -> tuple[object, ...]:
    error = None if report.error is None else _storable(report.error)
    common = parcel.attempt_count, parcel.claimed_at
    match outcome:
        case Delivered():
            status, delivered_at = ("delivered", now) if report.delivered else ("sent", None)
            ended = (now, delivered_at, None, None, report.provider, report.provider_msg_id)
            return parcel.id, status, common[0], None, common[1], *ended
        case Retry() if tries_again:
            return (
                parcel.id,
                "retrying",
                common[0],
                outcome.at or now,
                common[1],
                None,
                None,
                None,
                error,
                report.provider,
                None,
            )
        case _:
            return parcel.id, "failed", common[0], None, common[1], None, None, now, error, report.provider, None


def rescue(queries: Any, overdue: Sequence[Row], now: datetime) -> Step[None]:
    """Attempts whose process went away: nobody knows how they ended; tried again at once while attempts are left."""
    attempts: list[tuple[object, ...]] = []
    history: list[tuple[object, ...]] = []
    again, ended = [], []
    for message_id, attempt, last_attempt, claimed_at in overdue:
        started = instant(claimed_at)
        attempts.append((message_id, attempt, started, "unknown", None, WENT_AWAY, None))
        if attempt < last_attempt:
            again.append((message_id, now, 0, last_attempt))
            history.append((message_id, "retrying", attempt, now, started, None, None, None, WENT_AWAY, None, None))
        else:
            ended.append(message_id)
            history.append((message_id, "failed", attempt, None, started, None, None, now, WENT_AWAY, None, None))
    statements = [queries.insert_attempts(rows=attempts, now=now), queries.settle_history(rows=history, now=now)]
    if again:
        statements.append(queries.reschedule(rows=again, now=now))
    if ended:
        statements.append(queries.remove(message_ids=ended))
    yield from together(*statements)


def expire(queries: Any, message_ids: Sequence[str], now: datetime) -> Step[None]:
    """Close what nobody wants any more; it has left the queue already."""
    yield from together(*_endings(queries, dict.fromkeys(message_ids, Ending("expired", EXPIRED)), now))


def cancel(queries: Any, reasons: Mapping[str, str], now: datetime) -> Step[None]:
    """Take messages out of the queue, unsent."""
    yield from close(queries, {message_id: Ending("canceled", reason) for message_id, reason in reasons.items()}, now)


def close(queries: Any, endings: Mapping[str, Ending], now: datetime) -> Step[None]:
    """The same, each with its own ending."""
    yield from together(queries.remove(message_ids=list(endings)), *_endings(queries, endings, now))


def _endings(queries: Any, endings: Mapping[str, Ending], now: datetime) -> list[Any]:
    return [
        queries.end_history(rows=[(message_id, *ending) for message_id, ending in endings.items()], now=now),
        queries.insert_events(
            rows=[(message_id, str(uuid_utils.uuid7()), ending.status, None) for message_id, ending in endings.items()],
            now=now,
        ),
    ]


def prune(queries: Any, after: str, before: datetime, limit: int) -> Step[tuple[int, str | None]]:
    """Delete what ended before then in the next stretch of the history; how many, and where to go on, if there may be more."""
    rows = yield queries.oldest_messages(after=after, limit=STRETCH)
    over = [row[0] for row in rows if row[1] not in ("pending", "retrying") and instant(row[3]) < before][:limit]
    if over:
        # One that was retried since we looked stays, with all that belongs to it.
        over = [message_id for (message_id,) in (yield queries.prune_history(message_ids=over))]
        yield from together(
            queries.prune_attempts(message_ids=over),
            queries.prune_events(message_ids=over),
            queries.remove_copies(message_ids=over),
        )
    young = len(rows) < STRETCH or instant(rows[-1][2]) >= before
    if len(over) == limit:
        return len(over), after
    return len(over), None if young else rows[-1][0]


def prune_keys(queries: Any, before: datetime, limit: int) -> Step[int]:
    """Forget some idempotency keys that are older than that; how many."""
    return len((yield queries.prune_idempotency_keys(before=before, limit=limit)))


def _storable(error: str) -> str:
    return printable(error, _LONGEST_ERROR)
