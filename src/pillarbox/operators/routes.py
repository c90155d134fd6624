"""How the log finds what a filter asks for: for each part of it the index that leads there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from pillarbox.filters import PIPES, Conditions, Filter, Pipe, conditions_of
from pillarbox.filters.conditions import ContactHash, in_words_of
from pillarbox.filters.model import words
from pillarbox.filters.words import STATUSES

_QUEUED = ("pending", "processing", "retrying")
_UNSENT = ("failed", "bounced", "canceled", "expired")
_HEADS = ("failed", "processing")
_FAILING = "s.failing = 1"
MOST_HEADS = 20_000
"""Of so many failing sessions the heads are looked at together."""


@dataclass(frozen=True, slots=True)
class Route:
    """One walk along an index, the newest first; `within` bounds what it sees, the conditions choose among that."""

    pipe: Pipe
    table: str
    within: str
    key: str
    conditions: Conditions
    join: str = ""
    order: str = ""
    params: dict[str, object] = field(default_factory=dict)
    is_bounded: bool = False
    """Whether there is so little on it that it is read whole."""
    name: str = ""
    answers: tuple[str, ...] = ()
    """The words of the filter that hold of everything on it."""

    @property
    def is_plain(self) -> bool:
        """Whether everything on it matches."""
        return not self.conditions.texts


class Heads(NamedTuple):
    """A part of the failing sessions by their ids, after the first and up to the last; to the end without a last."""

    after: str = ""
    last: str | None = None


def routes_of(wanted: Filter, *, now: datetime, contact_hash: ContactHash, heads: Heads | None = None) -> list[Route]:
    """The walks that together find every match once; of failing sessions only those among the given `heads`."""
    found: list[Route] = []
    for pipe in PIPES:
        choose = _CHOICES[pipe]
        for part in _parts(in_words_of(pipe, wanted), pipe):
            conditions = conditions_of(part, pipe, now=now, contact_hash=contact_hash)
            if conditions is not None:
                route = _narrowed(choose(part, conditions, contact_hash), heads)
                rest = conditions_of(_rest(part, route.answers), pipe, now=now, contact_hash=contact_hash)
                found.append(replace(route, conditions=rest or conditions, name=f"{pipe}{len(found)}"))
    return found


def _narrowed(route: Route, heads: Heads | None) -> Route:
    if heads is None or _FAILING not in route.table:
        return route
    within, params = f"{_FAILING} AND s.session_id > :heads_after", {"heads_after": heads.after}
    if heads.last is not None:
        within, params = f"{within} AND s.session_id <= :heads_last", params | {"heads_last": heads.last}
    return replace(route, table=route.table.replace(_FAILING, within), params={**route.params, **params})


def _rest(wanted: Filter, answers: Sequence[str]) -> Filter:
    """What a walk does not answer by itself; without a tenant nobody could say who `to` means."""
    left = Filter(tuple(term for term in wanted.terms if term.negated or term.name not in answers))
    if any(term.name == "to" for term in left.terms):
        return left & Filter(tuple(term for term in wanted.terms if term.name == "tenant" and not term.negated))
    return left


_SPLIT: dict[Pipe, Sequence[Sequence[str]]] = {
    "outbound": (_QUEUED, *((status,) for status in _UNSENT)),
    "inbound": (("failed",), ("processing",)),
    "hooks": (("failed",), ("processing",), ("dead",)),
}


def _parts(wanted: Filter, pipe: Pipe) -> list[Filter]:
    """The filter, once for each group of the wanted states that has an index of its own."""
    asked = wanted.wanted("status")
    if asked is None:
        return [wanted]
    groups = [*_SPLIT[pipe], [status for status in STATUSES[pipe] if not any(status in g for g in _SPLIT[pipe])]]
    chosen = ([status for status in group if status in asked] for group in groups)
    return [wanted & words("status", *group) for group in chosen if group]


def _outbound(wanted: Filter, conditions: Conditions, contact_hash: ContactHash) -> Route:
    tenant, status, to = wanted.only("tenant"), wanted.wanted("status"), wanted.only("to")
    with_queue = "LEFT JOIN message_queue q ON q.message_id = h.message_id"
    history = Route("outbound", "message_history h", "", "h.message_id", conditions, join=with_queue)
    if (ids := wanted.wanted("id")) is not None:
        return replace(history, within="h.message_id :in(ids text)", params={"ids": list(ids)}, is_bounded=True)
    if tenant is not None and to is not None:
        # The sum of texts keeps planners from walking all of the tenant's messages to find one person's.
        return replace(
            history,
            within="h.tenant_id = :tenant AND h.contact = :contact",
            key="h.message_id || ''",
            params={"tenant": tenant, "contact": contact_hash(tenant, to)},
            is_bounded=True,
            answers=("tenant", "to"),
        )
    if status is not None and set(status) <= set(_QUEUED):
        with_history = "JOIN message_history h ON h.message_id = q.message_id"
        return replace(history, table="message_queue q", key="q.message_id", join=with_history)
    if status is not None and len(status) == 1 and status[0] in _UNSENT:
        history = replace(history, within="h.trouble = :status", params={"status": status[0]}, answers=("status",))
    if tenant is not None:
        return replace(
            history,
            within=f"h.tenant_id = :tenant AND {history.within}" if history.within else "h.tenant_id = :tenant",
            params={**history.params, "tenant": tenant},
            answers=("tenant", *history.answers),
        )
    return history


def _inbound(wanted: Filter, conditions: Conditions, _: ContactHash) -> Route:
    return _of_session("inbound", "inbound_queue m", "inbound_strand s", wanted, conditions)


def _hooks(wanted: Filter, conditions: Conditions, _: ContactHash) -> Route:
    if wanted.wanted("status") == ("dead",) and wanted.only("session") is None:
        return Route("hooks", "hook_outbox m", "m.status = 'dead'", "m.id", conditions)
    return _of_session("hooks", "hook_event m", "hook_strand s", wanted, conditions)


def _of_session(pipe: Pipe, table: str, strands: str, wanted: Filter, conditions: Conditions) -> Route:
    session, status = wanted.only("session"), wanted.wanted("status")
    if (ids := wanted.wanted("id")) is not None:
        numbers = [int(text) for text in ids if text.isascii() and text.isdigit() and len(text) < 19]
        within = "m.id :in(ids bigint)"
        return Route(pipe, table, within, "m.id", conditions, params={"ids": numbers}, is_bounded=True)
    if session is not None:
        return Route(
            pipe,
            table,
            "m.session_id = :session",
            "m.seq",
            conditions,
            order="m.session_id DESC, m.seq DESC",
            params={"session": session},
            answers=("session",),
        )
    if status is not None and len(status) == 1 and status[0] in _HEADS:
        held = pipe == "hooks" and status[0] == "processing"
        place = "m.seq >= s.head_seq AND m.seq <= s.held_seq" if held else "m.seq = s.head_seq"
        marked = _FAILING if status[0] == "failed" else "s.lease_until IS NOT NULL"
        columns = "s.session_id, s.head_seq, s.held_seq" if held else "s.session_id, s.head_seq"
        # The sum keeps planners from walking all ids to find the few that stand at the heads.
        return Route(
            pipe,
            f"(SELECT {columns} FROM {strands} WHERE {marked} LIMIT {MOST_HEADS}) s CROSS JOIN {table}",
            f"m.session_id = s.session_id AND {place}",
            "m.id + 0",
            conditions,
            is_bounded=True,
        )
    return Route(pipe, table, "", "m.id", conditions)


_CHOICES: Mapping[Pipe, Callable[[Filter, Conditions, ContactHash], Route]] = {
    "outbound": _outbound,
    "inbound": _inbound,
    "hooks": _hooks,
}
