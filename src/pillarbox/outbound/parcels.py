"""What was claimed, as the engine holds it."""

from __future__ import annotations

from datetime import datetime

from pillarbox.engine import Strand
from pillarbox.outbound.attempt import Parcel
from pillarbox.outbound.candidates import EVER, Candidate
from pillarbox.storage import Row, legible


def strand(
    candidate: Candidate, mark: Row, content: Row, providers: str, settings: str, now: datetime
) -> Strand[Parcel]:
    """A message that was taken, by its mark and its content, and how its tenant sends."""
    message_id, token, attempt, last_attempt = mark
    _, category, created_at, trace, _, to_address, subject, text, html, options, sealed, attachments = content
    parcel = Parcel(
        message_id,
        candidate.tenant_id,
        token,
        candidate.channel,
        attempt,
        last_attempt,
        now,
        candidate.contacts,
        category,
        to_address,
        subject,
        text,
        html,
        options,
        sealed,
        attachments,
        trace,
        legible(created_at),
        providers,
        settings,
    )
    return Strand(message_id, candidate.tenant_id, token, (parcel,))


def bare_strand(message_id: str, tenant_id: str, token: int, attempt: int, last_attempt: int) -> Strand[Parcel]:
    """A strand that is only to be given back: what it says does not matter."""
    candidate = Candidate(message_id, tenant_id, "email", (), None)
    content = (message_id, "transactional", EVER, None, None, "", None, None, None, "{}", None, None)
    return strand(candidate, (message_id, token, attempt, last_attempt), content, "{}", "{}", EVER)


def candidate_of(parcel: Parcel) -> Candidate:
    return Candidate(parcel.id, parcel.tenant_id, parcel.channel, parcel.contacts, None)
