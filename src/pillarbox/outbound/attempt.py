"""A claimed message, and how its attempt ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from pillarbox.engine import Delivered, Failed, Retry
from pillarbox.outbound.model import Category, Channel
from pillarbox.outbound.provider import Judgement


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


class Report(NamedTuple):
    """What is to be remembered of an attempt; what was asked and answered only of one that did not end well."""

    judgement: Judgement
    provider: str | None = None
    status_code: int | None = None
    error: str | None = None
    provider_msg_id: str | None = None
    delivered: bool = False
    opt_out: bool = False
    last_chance: bool = False
    request: str | None = None
    response: str | None = None


_ACCEPTED, _TRANSIENT, _REJECTED = Report("accepted"), Report("transient"), Report("rejected")


@dataclass(frozen=True, slots=True)
class Accepted(Delivered):
    """The provider has it."""

    report: Report = _ACCEPTED


@dataclass(frozen=True, slots=True)
class Transient(Retry):
    """Not this time, or nobody knows."""

    report: Report = _TRANSIENT


@dataclass(frozen=True, slots=True)
class Rejected(Failed):
    """Never."""

    report: Report = _REJECTED


def report_of(outcome: Delivered | Retry | Failed) -> Report:
    """The report of an outcome; one that the engine judged, after a timeout or a stop, leaves open what became of it."""
    match outcome:
        case Accepted() | Transient() | Rejected():
            return outcome.report
        case Delivered():
            return _ACCEPTED
        case _:
            return Report("unknown", error=outcome.error)
