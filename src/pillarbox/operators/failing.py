"""Providers that fail their tenants now: whoever took something since is well again, and a refusal or two are about messages."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from pillarbox.storage import UNREADABLE, Row, Step, legible, load_queries

_queries = load_queries("pillarbox.operators", "attention.sql")

_TENANTS_ASKED = 20
_LOOKED_AT = 2000
_NEWEST = 500
_REFUSALS = 3


@dataclass(frozen=True, slots=True)
class Failing:
    """A tenant's provider, since when it fails, and how many messages ended by it or wait for their retry."""

    tenant_id: str
    name: str
    since: datetime
    reason: str
    ended: int
    waiting: int


@dataclass(frozen=True, slots=True, order=True)
class _Failure:
    at: datetime
    error: str
    waits: bool


def still_failing(ended: Iterable[Row], waiting: Iterable[Row]) -> Step[tuple[list[Failing], bool]]:
    """The providers of late failures that took nothing since, and whether every tenant could be looked at."""
    groups: dict[str, dict[str, list[_Failure]]] = defaultdict(lambda: defaultdict(list))
    worst: Counter[str] = Counter()
    for rows, waits in ((ended, False), (waiting, True)):
        for tenant_id, channel, provider, at, error in rows:
            if (read := legible(at)) is not UNREADABLE:
                groups[tenant_id][provider or channel].append(_Failure(read, error or "", waits))
                worst[tenant_id] += 1
    newest = min(_NEWEST, _LOOKED_AT // max(1, min(len(worst), _TENANTS_ASKED)))
    found: list[Failing] = []
    for tenant_id, _ in worst.most_common(_TENANTS_ASKED):
        rows = yield _queries.accepted(tenant_id=tenant_id, most=newest)
        took = {name: read for name, at in rows if (read := legible(at)) is not UNREADABLE}
        for name, failures in groups[tenant_id].items():
            since = took.get(name)
            found += _judged(tenant_id, name, [each for each in failures if since is None or each.at > since])
    return found, len(worst) <= _TENANTS_ASKED


def _judged(tenant_id: str, name: str, failures: list[_Failure]) -> list[Failing]:
    """What a provider's failures since it last took something mean; a refusal or two are about their messages."""
    waiting = sum(each.waits for each in failures)
    if not waiting and len(failures) < _REFUSALS:
        return []
    first, last = min(failures), max(failures)
    return [Failing(tenant_id, name, first.at, last.error, len(failures) - waiting, waiting)]
