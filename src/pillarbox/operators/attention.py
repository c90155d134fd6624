"""What needs an operator now: what is stuck, what failed, who went away; each with its age, its reason and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from pillarbox.operators.failing import Failing, still_failing
from pillarbox.operators.model import Count
from pillarbox.operators.nodes import Node, Nodes, missed
from pillarbox.storage import UNREADABLE, Database, Row, Step, legible, load_queries

_queries = load_queries("pillarbox.operators", "attention.sql")

Kind = Literal["stuck-session", "stuck-events", "dead-event", "failed-message", "failing-provider", "gone-node"]

_LOOKED_AT = 1000
_SHOWN = 20
_STUCK_AFTER = timedelta(minutes=1)
_LATELY = timedelta(days=1)
_THIS_HOUR = timedelta(hours=1)


class AttentionItem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that needs an operator; `count` is how many messages it holds up or concerns, at least so many if not `exact`.

    `channel` and `summary`, its subject, are of a message that failed.
    """

    kind: Kind
    id: str
    since: datetime
    age_seconds: float
    reason: str
    action: str
    count: int
    tenant_id: str | None = None
    session_id: str | None = None
    exact: bool = True
    channel: str | None = None
    summary: str | None = None


class Attention(msgspec.Struct, frozen=True, kw_only=True):
    """What needs an operator, the oldest of each kind first; `counts` tells how many of each kind there are.

    A count that is not `exact` is a lower bound: there are at least so many.
    """

    items: Sequence[AttentionItem]
    counts: dict[Kind, Count]


class AttentionDesk:
    """Looks at a bounded part of each pipe, on indexes that hold only trouble, in the order of when it began."""

    def __init__(self, database: Database, nodes: Nodes) -> None:
        self._database = database
        self._clock = database.clock
        self._nodes = nodes

    async def look(self) -> Attention:
        now = self._clock.now()
        groups = await self._database.read(lambda: self._groups(now))
        gone = [self._gone(node, now) for node in missed(await self._nodes.list())]
        groups["gone-node"] = (gone, True)
        items: list[AttentionItem] = []
        for found, _ in groups.values():
            items += sorted(found, key=lambda item: item.since)[:_SHOWN]
        return Attention(
            items=items, counts={kind: Count(len(found), exact) for kind, (found, exact) in groups.items()}
        )

    def _groups(self, now: datetime) -> Step[dict[Kind, tuple[list[AttentionItem], bool]]]:
        """Of each kind what was found, and whether that is all: every look ends after so many."""
        long_ago, lately, this_hour = now - _STUCK_AFTER, now - _LATELY, now - _THIS_HOUR
        inbound = yield _queries.stuck_inbound(before=long_ago, most=_LOOKED_AT)
        hooks = yield _queries.stuck_hooks(before=long_ago, most=_LOOKED_AT)
        dead = yield _queries.dead(most=_LOOKED_AT)
        failed = yield _queries.failed(since=lately, most=_LOOKED_AT)
        failing = yield _queries.failing(since=this_hour, most=_LOOKED_AT)
        retrying = yield _queries.retrying(since=this_hour, most=_LOOKED_AT)
        all_seen = _is_all(failing) and _is_all(retrying)
        providers, all_asked = yield from still_failing(failing, retrying)
        return {
            "stuck-session": (self._stuck("stuck-session", inbound, now), _is_all(inbound)),
            "stuck-events": (self._stuck("stuck-events", hooks, now), _is_all(hooks)),
            "failing-provider": (
                [self._failing(each, now, exact=all_seen) for each in providers],
                all_seen and all_asked,
            ),
            "failed-message": ([self._failed(row, now) for row in failed], _is_all(failed)),
            "dead-event": (self._dead(dead, now), _is_all(dead)),
        }

    def _stuck(self, kind: Kind, rows: Iterable[Row], now: datetime) -> list[AttentionItem]:
        """Sessions that their head holds up for longer than a hiccup."""
        return [
            self._item(
                kind,
                str(row_id),
                failing_since,
                now,
                session_id=session_id,
                count=waiting,
                reason=f"{error or 'It fails.'} Attempts so far: {attempts}.",
                action="Mend its target and retry it, or expire it so that the next can go."
                if kind == "stuck-session"
                else "Mend what listens to its events, and retry it.",
            )
            for row_id, session_id, failing_since, error, attempts, waiting in rows
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
        message_id, tenant_id, failed_at, error, channel, subject = row
        return self._item(
            "failed-message",
            message_id,
            failed_at,
            now,
            tenant_id=tenant_id,
            reason=error or "It failed for good.",
            action="Mend what the error names and retry it.",
            channel=channel,
            summary=subject,
        )

    def _failing(self, provider: Failing, now: datetime, *, exact: bool) -> AttentionItem:
        advice = "Look at the provider's status and the tenant's credentials"
        return self._item(
            "failing-provider",
            provider.name,
            provider.since,
            now,
            tenant_id=provider.tenant_id,
            count=provider.ended + provider.waiting,
            exact=exact,
            reason=provider.reason or "Its sends fail.",
            action=f"{advice}; what waits is tried again by itself."
            if provider.waiting
            else f"{advice}, then retry what failed.",
        )

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
        exact: bool = True,
        channel: str | None = None,
        summary: str | None = None,
    ) -> AttentionItem:
        read = legible(since)
        # Where a time was damaged on disk, what it belongs to needs somebody all the same.
        at = now if read is UNREADABLE else read
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
            exact=exact,
            channel=channel,
            summary=summary,
        )


def _is_all(rows: Sequence[Row]) -> bool:
    return len(rows) < _LOOKED_AT
