"""A claimed message, and how its attempt ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from pillarbox.engine import Delivered, Failed, Retry
from pillarbox.outbound.model import Category, Channel
from pillarbox.outbound.provider import Judgement
from pillarbox.storage import Row, instant


class Parcel(NamedTuple):
    """A message that is ours to send, and how its tenant sends."""

    id: str
    tenant_id: str
    token: int
    channel: Channel
    attempt_count: int
    last_attempt: int
    claimed_at: datetime
    contacts: tuple[str, ...]
    category: Category
    to_address: str
    subject: str | None
    body_text: str | None
    body_html: str | None
    options: str
    sealed: str | None
    attachments: str | None
    trace: str | None
    created_at: datetime
    providers: str
    settings: str


@dataclass(frozen=True, slots=True)
class Report:
    """What is to be remembered of an attempt."""

    judgement: Judgement
    provider: str | None = None
    status_code: int | None = None
    error: str | None = None
    provider_msg_id: str | None = None
    delivered: bool = False
    opt_out: bool = False
    last_chance: bool = False


@dataclass(frozen=True, slots=True)
class Accepted(Delivered):
    """The provider has it."""

    report: Report = Report("accepted")


@dataclass(frozen=True, slots=True)
class Transient(Retry):
    """Not this time, or nobody knows."""

    report: Report = Report("transient")


@dataclass(frozen=True, slots=True)
class Rejected(Failed):
    """Never."""

    report: Report = Report("rejected")


def report_of(outcome: Delivered | Retry | Failed) -> Report:
    """The report of an outcome; one that the engine judged, after a timeout or a stop, leaves open what became of it."""
    match outcome:
        case Accepted() | Transient() | Rejected():
            return outcome.report
        case Delivered():
            return Report("accepted")
        case _:
            return Report("unknown", error=outcome.error)


def parcel_from(
    row: Row, *, token: int, attempt: int, last_attempt: int, claimed_at: datetime, contacts: tuple[str, ...]
) -> Parcel:
    (
        message_id,
        tenant_id,
        channel,
        category,
        to_address,
        subject,
        text,
        html,
        options,
        sealed,
        attachments,
        trace,
        *rest,
    ) = row
    created_at, providers, settings = rest
    return Parcel(
        id=message_id,
        tenant_id=tenant_id,
        token=token,
        channel=channel,
        attempt_count=attempt,
        last_attempt=last_attempt,
        claimed_at=claimed_at,
        contacts=contacts,
        category=category,
        to_address=to_address,
        subject=subject,
        body_text=text,
        body_html=html,
        options=options,
        sealed=sealed,
        attachments=attachments,
        trace=trace,
        created_at=instant(created_at),
        providers=providers,
        settings=settings,
    )
