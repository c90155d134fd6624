"""Whose turn it is, and what of theirs may go: the pure part of a claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from typing import NamedTuple

import msgspec

from pillarbox.errors import Unavailable
from pillarbox.outbound.model import CHANNELS, Channel
from pillarbox.outbound.rates import Cap, allowance, next_free, sound, used
from pillarbox.outbound.settling import EXPIRED, Ending
from pillarbox.storage import (
    DAMAGED,
    UNREADABLE,
    Row,
    instant_or_none,
    is_intact,
    is_legible,
    legible,
    legible_or_none,
)

EVER = datetime.min.replace(tzinfo=UTC)
OPTED_OUT = "The recipient has opted out ({}); nothing more is sent."
TENANT_GONE = "Its tenant was removed before it was sent."
SAID = 5
"""From where on a content's columns say what was said; its checksum stands before them."""
_CREATED = 2

_contacts = msgspec.json.Decoder(tuple[str, ...]).decode


class Candidate(NamedTuple):
    """A message that is ready, under our lock."""

    message_id: str
    tenant_id: str
    channel: Channel
    contacts: tuple[str, ...]
    expires_at: datetime | None
    damaged: bool = False


class ReadyTenant(NamedTuple):
    """A tenant that has something ready: whether it is still there, and when its cap lets the next message go."""

    tenant_id: str
    known: bool
    free_at: datetime


class Walk(NamedTuple):
    """Tenants that have something ready, in turn; all there are, if the walk was whole."""

    tenants: list[ReadyTenant]
    whole: bool


def ready_tenant(
    name: str, known: str | None, rate: int, used_until: str | datetime | None, *, now: datetime
) -> ReadyTenant:
    until = sound(legible_or_none(used_until), now)
    free_at = next_free(Cap.of(rate), until) if rate and until is not None else EVER
    return ReadyTenant(name, known is not None, free_at)


def candidate(
    message_id: str, tenant_id: str, channel: Channel, contacts: str, expires_at: str | datetime | None
) -> Candidate:
    try:
        read = Candidate(message_id, tenant_id, channel, _contacts(contacts), instant_or_none(expires_at))
    except (ValueError, Unavailable):
        return Candidate(message_id, tenant_id, channel, (), None, damaged=True)
    return read if channel in CHANNELS and is_legible(contacts) else read._replace(damaged=True)


def where_to_go_on(walk: Walk, open_to: Sequence[ReadyTenant], chosen: Sequence[ReadyTenant], slots: int) -> str:
    """Behind whom the next look begins, so that everybody has a turn before anybody has another."""
    if len(chosen) < len(open_to):
        return chosen[-1].tenant_id
    if not walk.whole:
        return walk.tenants[-1].tenant_id
    spare = slots % len(chosen) if len(chosen) > 1 else 0
    return chosen[spare - 1].tenant_id if spare else ""


def in_turns(candidates: Sequence[Candidate], tenants: Sequence[str]) -> list[Candidate]:
    """The first of each tenant, then the second of each, and so on."""
    if len(tenants) == 1:
        return list(candidates)
    of_tenant: dict[str, list[Candidate]] = {tenant: [] for tenant in tenants}
    for candidate in candidates:
        of_tenant[candidate.tenant_id].append(candidate)
    return [each for turn in zip_longest(*of_tenant.values()) for each in turn if each is not None]


def overtaken(candidates: Sequence[Candidate], gone: set[str], now: datetime) -> dict[str, Ending]:
    """Those that time, damage or the loss of their tenant has overtaken, and how they end."""
    endings = {}
    for each in candidates:
        if each.damaged:
            endings[each.message_id] = Ending("failed", DAMAGED)
        elif each.tenant_id in gone:
            endings[each.message_id] = Ending("canceled", TENANT_GONE)
        elif each.expires_at is not None and each.expires_at <= now:
            endings[each.message_id] = Ending("expired", EXPIRED)
    return endings


def failed_among(candidates: Sequence[Candidate], endings: Mapping[str, Ending]) -> list[tuple[Candidate, Ending]]:
    """Those that fail without an attempt."""
    ended = [(each, endings[each.message_id]) for each in candidates if each.message_id in endings]
    return [(each, ending) for each, ending in ended if ending.status == "failed"]


def within_caps(
    candidates: Sequence[Candidate], shared: set[str], capped: Sequence[Row], now: datetime
) -> list[Candidate]:
    """Those whose tenants may send now; a tenant that another node claims for is left to it."""
    left = Counter(
        {
            tenant: allowance(Cap.of(rate), sound(legible_or_none(until), now), now)
            for tenant, _, _, rate, until in capped
        }
    )
    fitting = []
    for candidate in candidates:
        if candidate.tenant_id in shared or left[candidate.tenant_id] > 0:
            fitting.append(candidate)
            left[candidate.tenant_id] -= 1
    return fitting


def opted_out_among(admitted: Sequence[Candidate], opted: Sequence[Row]) -> dict[str, Ending]:
    """Which messages would go to someone who does not want them, and the error that says so."""
    if not opted:
        return {}
    by_contact: dict[tuple[str, str], set[str]] = {}
    for tenant_id, contact, channel, _ in opted:
        by_contact.setdefault((tenant_id, contact), set()).add(channel)
    refused = {}
    for each in admitted:
        channels = {channel for contact in each.contacts for channel in by_contact.get((each.tenant_id, contact), ())}
        if found := channels & {each.channel, "all"}:
            refused[each.message_id] = Ending("canceled", OPTED_OUT.format(sorted(found)[0]))
    return refused


def damaged_among(contents: Mapping[str, Row]) -> dict[str, Ending]:
    """Which messages are not what was handed in any more, and the error that says so."""
    return {
        message_id: Ending("failed", DAMAGED)
        for message_id, row in contents.items()
        if legible(row[_CREATED]) is UNREADABLE or not is_intact(row[SAID - 1], *row[SAID:])
    }


def counted(going: Sequence[Candidate], capped: Sequence[Row], now: datetime) -> list[tuple[str, datetime]]:
    """Up to when these sends use the caps of their tenants that have one."""
    sends = Counter(each.tenant_id for each in going)
    return [
        (tenant, used(Cap.of(rate), sound(legible_or_none(until), now), now, sends[tenant]))
        for tenant, _, _, rate, until in capped
        if sends[tenant]
    ]
