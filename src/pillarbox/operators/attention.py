"""What needs an operator now: what is stuck, what failed, who went away; each with its age, its reason and what to do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from pillarbox.operators.model import Count
from pillarbox.operators.nodes import Node, Nodes, missed
from pillarbox.storage import Database, Row, Step, instant, instant_or_none, load_queries
from pillarbox.storage.ids import earliest_id

_queries = load_queries("pillarbox.operators", "attention.sql")

Kind = Literal["stuck-session", "stuck-events", "dead-event", "failed-message", "failing-provider", "gone-node"]

_LOOKED_AT = 1000
_SHOWN = 20
_STUCK_AFTER = timedelta(minutes=1)
_LATELY = timedelta(days=1)
_THIS_HOUR = timedelta(hours=1)


class AttentionItem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that needs an operator; `count` is how many messages it holds up or concerns."""

    kind: Kind
    id: str
    since: datetime
    age_seconds: float
    reason: str
    action: str
    count: int
    tenant_id: str | None = None
    session_id: str | None = None


class Attention(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that needs an operator, the oldest of each kind first; `counts` tells how many of each kind there are."""

    items: Sequence[AttentionItem]
    counts: dict[Kind, Count]


class AttentionDesk:
    """Looks at a bounded part of each pipe, on indexes that hold only trouble."""

    def __init__(self, database: Database, nodes: Nodes) -> None:
        self._database = database
        self._clock = database.clock
        self._nodes = nodes

    async def look(self) -> Attention:
        now = self._clock.now()
        since = earliest_id(self._clock.shown(now - _LATELY))
        groups = await self._database.read(lambda: self._groups(now, since))
        gone = [self._gone(node, now) for node in missed(await self._nodes.list())]
        groups["gone-node"] = (gone, len(gone))
        items: list[AttentionItem] = []
        for found, _ in groups.values():
            items += sorted(found, key=lambda item: item.since)[:_SHOWN]
        counts = {kind: Count(seen, seen < _LOOKED_AT) for kind, (_, seen) in groups.items()}
        return Attention(items=items, counts=counts)

    def _groups(self, now: datetime, since: str) -> Step[dict[Kind, tuple[list[AttentionItem], int]]]:
        sessions = self._stuck("stuck-session", (yield _queries.stuck_inbound(most=_LOOKED_AT)), now)
        events = self._stuck("stuck-events", (yield _queries.stuck_hooks(most=_LOOKED_AT)), now)
        dead = self._dead((yield _queries.dead(most=_LOOKED_AT)), now)
        unsent = yield _queries.unsent(since=since, most=_LOOKED_AT)
        retrying = yield _queries.retrying(most=_LOOKED_AT)
        failed = [self._failed(row, now) for row in unsent]
        failing = self._failing(unsent, retrying, now)
        return {
            "stuck-session": (sessions, len(sessions)),
            "stuck-events": (events, len(events)),
            "failing-provider": (failing, len(failing)),
            "failed-message": (failed, len(failed)),
            "dead-event": (dead, len(dead)),
        }

    def _stuck(self, kind: Kind, rows: Iterable[Row], now: datetime) -> list[AttentionItem]:
        """Sessions that their head holds up for longer than a hiccup."""
        return [
            self._item(
                kind,
                str(row_id),
                created_at,
                now,
                session_id=session_id,
                count=waiting,
                reason=f"{error or 'It fails.'} Attempts so far: {attempts}.",
                action="Mend its target and retry it, or expire it so that the next can go."
                if kind == "stuck-session"
                else "Mend what listens to its events, and retry it.",
            )
            for row_id, session_id, created_at, error, attempts, waiting in rows
            if instant(created_at) <= now - _STUCK_AFTER
        ]

    def _dead(self, rows: Iterable[Row], now: datetime) -> list[AttentionItem]:
        return [
            self._item(
                "dead-event",
                str(row_id),
                created_at,
                now,
                session_id=session_id,
                reason=error or "A listener closed it with an error.",
                action="Mend the listener and retry it, or leave it.",
            )
            for row_id, session_id, created_at, error in rows
        ]

    def _failed(self, row: Row, now: datetime) -> AttentionItem:
        message_id, tenant_id, _, _, created_at, error = row
        return self._item(
            "failed-message",
            message_id,
            created_at,
            now,
            tenant_id=tenant_id,
            reason=error or "It failed for good.",
            action="Mend what the error names and retry it.",
        )

    def _failing(self, unsent: Iterable[Row], retrying: Iterable[Row], now: datetime) -> list[AttentionItem]:
        """Whoever failed messages within the hour, by tenant and provider."""
        hour = earliest_id(self._clock.shown(now - _THIS_HOUR))
        groups: dict[tuple[str, str], list[tuple[datetime, str]]] = defaultdict(list)
        for message_id, tenant_id, channel, provider, created_at, error in unsent:
            if message_id >= hour:
                groups[tenant_id, provider or channel].append((instant(created_at), error or ""))
        for _, tenant_id, channel, provider, created_at, error, tried_at in retrying:
            tried = instant_or_none(tried_at)
            if tried is not None and tried >= now - _THIS_HOUR:
                groups[tenant_id, provider or channel].append((instant(created_at), error or ""))
        return [
            self._item(
                "failing-provider",
                provider,
                min(found)[0],
                now,
                tenant_id=tenant_id,
                count=len(found),
                reason=max(found)[1] or "Its sends fail.",
                action="Look at the provider's status and the tenant's credentials; what waits is tried again by itself.",
            )
            for (tenant_id, provider), found in groups.items()
        ]

    def _gone(self, node: Node, now: datetime) -> AttentionItem:
        since = self._clock.stored(node.last_seen)
        return self._item(
            "gone-node",
            node.name,
            since,
            now,
            count=node.in_flight,
            reason=f"Process {node.process} ({node.role}) stopped without a word.",
            action="Look at its log and start it again; others take over what it held.",
        )

    def _item(
        self,
        kind: Kind,
        subject: str,
        since: str | datetime,
        now: datetime,
        *,
        reason: str,
        action: str,
        count: int = 1,
        tenant_id: str | None = None,
        session_id: str | None = None,
    ) -> AttentionItem:
        at = instant(since)
        return AttentionItem(
            kind=kind,
            id=subject,
            since=self._clock.shown(at),
            age_seconds=max(0.0, (now - at).total_seconds()),
            reason=reason,
            action=action,
            count=count,
            tenant_id=tenant_id,
            session_id=session_id,
        )
