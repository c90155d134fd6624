"""The table of operators' actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from pillarbox.audit.actor import actor
from pillarbox.audit.model import Act, OperatorAction
from pillarbox.errors import Refused
from pillarbox.storage import Database, Row, Step, Work, instant, load_queries
from pillarbox.storage.ids import AFTER_ALL, earliest_id, new_id

queries = load_queries("pillarbox.audit")
T = TypeVar("T")

DONE = "done"
_PRUNED_AT_ONCE = 1000


class Audit:
    """Writes down what operators do, together with what they do, and shows it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._clock = database.clock

    async def write(self, act: Act | Callable[[T], Act], work: Work[T], *, is_new: bool = False) -> T:
        """Carry out an action and note it in the same transaction; one that is refused is noted as that.

        What it was done to may be known only from the answer. Where nobody is acting, as when a program uses its own box,
        nothing is noted. What brings new work `is_new`, and is refused while the disk is nearly full.
        """
        who, write = actor(), self._database.write_new if is_new else self._database.write
        if who is None:
            return await write(work)
        now = self._clock.now()

        def noted() -> Step[T]:
            answer = yield from work()
            yield from record(who, [(act if isinstance(act, Act) else act(answer), DONE)], now)
            return answer

        try:
            return await write(noted)
        except Refused as refusal:
            if isinstance(act, Act):
                await self.note(act, refusal.reason)
            raise

    async def note(self, act: Act, outcome: str = DONE) -> None:
        """Note an action that took more than one transaction, or was refused."""
        who, now = actor(), self._clock.now()
        if who is not None:
            await self._database.write(lambda: record(who, [(act, outcome)], now))

    async def list(
        self, *, subject: tuple[str, str] | None = None, limit: int = 100, before: str = ""
    ) -> list[OperatorAction]:
        """Actions, the newest first: all of them, or those on one subject such as `("message", id)`."""
        edge = before or AFTER_ALL

        def work() -> Step[list[Row]]:
            if subject is None:
                return (yield queries.list(before=edge, limit=limit))
            kind, subject_id = subject
            return (yield queries.of_subject(subject_kind=kind, subject_id=subject_id, before=edge, limit=limit))

        return [action_from(row, self._clock.shown) for row in await self._database.read(work)]

    async def prune(self, retention: timedelta) -> tuple[int, bool]:
        """Forget a bounded number of actions that were kept long enough; how many, and whether there may be more."""
        before = earliest_id(self._clock.shown(self._clock.now() - retention))

        def work() -> Step[int]:
            return len((yield queries.prune(before=before, limit=_PRUNED_AT_ONCE)))

        deleted = await self._database.write(work)
        return deleted, deleted == _PRUNED_AT_ONCE


def record(who: str, acts: Sequence[tuple[Act, str]], now: datetime) -> Step[None]:
    """Note actions inside the transaction that carries them out."""
    if acts:
        rows = [
            (new_id(), act.action, act.subject_kind, act.subject_id, act.tenant_id, outcome) for act, outcome in acts
        ]
        yield queries.record(rows=rows, who=who, now=now)


def noted(who: str | None, act: Act, now: datetime) -> Step[None]:
    """The same for one action, if anybody is acting."""
    if who is not None:
        yield from record(who, [(act, DONE)], now)


def action_from(row: Row, shown: Callable[[datetime], datetime]) -> OperatorAction:
    return OperatorAction(
        id=row[0],
        at=shown(instant(row[1])),
        who=row[2],
        action=row[3],
        subject_kind=row[4],
        subject_id=row[5],
        tenant_id=row[6],
        outcome=row[7],
    )
