"""Making the sandbox behave badly, on whichever node it is asked to send next."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from pillarbox.audit import Act, Audit
from pillarbox.errors import InvalidInput
from pillarbox.filters.model import words
from pillarbox.operators.log import Log
from pillarbox.operators.model import Stretch
from pillarbox.outbound.model import CHANNELS, Channel, MessageItem
from pillarbox.outbound.providers.sandbox import TROUBLES, Sandbox, Trouble
from pillarbox.storage import Database, Row, Step, instant, load_queries
from pillarbox.storage.ids import new_id

_queries = load_queries("pillarbox.operators", "sandbox.sql")

MOST_TIMES = 1000
_MOST_CONTROLS = 100
_SEEN_SECONDS = 0.5


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """A trouble that the next sends of a channel end in, and for how many more of them."""

    id: str
    channel: Channel | Literal["all"]
    trouble: Trouble
    remaining: int
    created_at: datetime


class SandboxControls:
    """What the sandbox is to do next, kept in the database so that every process obeys."""

    def __init__(self, database: Database, log: Log, sandbox: Sandbox) -> None:
        self._database = database
        self._clock = database.clock
        self._audit = Audit(database)
        self._log = log
        self._nothing_until = 0.0
        sandbox.obey = self._next

    async def arrange(self, trouble: Trouble, *, channel: Channel | Literal["all"] = "all", times: int = 1) -> Control:
        """Let the next sends of a channel fail, be throttled, hang, or end nobody knows how."""
        if trouble not in TROUBLES:
            raise InvalidInput("trouble", f"must be one of {', '.join(TROUBLES)}.")
        if channel != "all" and channel not in CHANNELS:
            raise InvalidInput("channel", f"must be one of {', '.join(CHANNELS)} or all.")
        if not 1 <= times <= MOST_TIMES:
            raise InvalidInput("times", f"must be 1 to {MOST_TIMES}.")
        trouble_id, now = new_id(), self._clock.now()

        def work() -> Step[None]:
            if (yield _queries.count())[0][0] >= _MOST_CONTROLS:
                raise InvalidInput(
                    "trouble", f"no more than {_MOST_CONTROLS} can be arranged at once; clear them first."
                )
            yield _queries.arrange(trouble_id=trouble_id, channel=channel, trouble=trouble, times=times, now=now)

        await self._audit.write(Act("sandbox.arrange", "sandbox", f"{channel}:{trouble}"), work)
        self._nothing_until = 0.0
        self._database.ring()
        return Control(
            id=trouble_id, channel=channel, trouble=trouble, remaining=times, created_at=self._clock.shown(now)
        )

    async def list(self) -> list[Control]:
        """What is arranged, in the order in which it will happen."""

        def work() -> Step[list[Row]]:
            return (yield _queries.list(limit=_MOST_CONTROLS))

        return [
            Control(id=row[0], channel=row[1], trouble=row[2], remaining=row[3], created_at=self._shown(row[4]))
            for row in await self._database.read(work)
            if row[3] > 0
        ]

    async def clear(self) -> None:
        """Let the sandbox behave well again."""

        def work() -> Step[None]:
            yield _queries.clear()

        await self._audit.write(Act("sandbox.clear", "sandbox", "all"), work)

    async def mailbox(self, *, cursor: str = "", limit: int = 100) -> Stretch[MessageItem]:
        """The messages that the sandbox was given, the newest first."""
        return await self._log.messages("", words("provider", "sandbox"), cursor=cursor, limit=limit)

    def heard(self) -> None:
        """Another process committed something: it may have arranged a trouble."""
        self._nothing_until = 0.0

    async def _next(self, channel: Channel) -> Trouble | None:
        """The trouble that this send is to end in; that there is none is believed for a moment."""
        moment = self._clock.monotonic()
        if moment < self._nothing_until:
            return None

        def look() -> Step[list[Row]]:
            return (yield _queries.any())

        def take() -> Step[list[Row]]:
            taken: list[Row] = yield _queries.take(channel=channel)
            yield _queries.remove_used()
            return taken

        if not await self._database.read(look):
            self._nothing_until = moment + _SEEN_SECONDS
            return None
        taken = await self._database.write(take)
        return taken[0][0] if taken else None

    def _shown(self, at: str | datetime) -> datetime:
        return self._clock.shown(instant(at))
