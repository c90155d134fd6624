"""Taking previews away: tried until it is done; one that may not be removed is made to say that it is over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from pillarbox.conversations import leftovers
from pillarbox.conversations.drafts import Desk, Fate, fate, remove, show
from pillarbox.conversations.leftovers import Standing
from pillarbox.conversations.lines import queries
from pillarbox.outbound.provider import Request, Response
from pillarbox.storage import Database, Step
from pillarbox.telemetry import logger

_log = logger(__name__)

OVER = "Done."
_SEARCH_SECONDS = 5.0
_FIRST_WAIT, _LONGEST_WAIT = 5.0, 300.0
# Nobody takes a message back after two days on Telegram; what has not worked by then will not.
_GIVEN_UP_AFTER = timedelta(days=2)

Chat = tuple[str, str]
Ask = Callable[[Chat, Request], Awaitable[Response | None]]


@dataclass(slots=True)
class Wait:
    """Since when a removal is tried, how often, and when next."""

    since: float
    tries: int = 0
    due: float = 0.0


class Removals:
    """What is to be taken out of chats by this process: what it has shown, and what others left behind."""

    def __init__(
        self,
        database: Database,
        desks: Mapping[str, Desk],
        *,
        holder: str,
        ask: Ask,
        monotonic: Callable[[], float],
    ) -> None:
        self._database = database
        self._desks = desks
        self._holder = holder
        self._ask = ask
        self._monotonic = monotonic
        self._searched = float("-inf")
        self.waiting: dict[Standing, Wait] = {}

    def add(self, standing: Standing) -> None:
        self.waiting.setdefault(standing, Wait(self._monotonic()))

    def has(self, chat: Chat) -> bool:
        """Whether something in a chat is about to be removed, so that nothing new is shown below it."""
        return any(standing.chat == chat and not wait.tries for standing, wait in self.waiting.items())

    async def step(self, free_at: Mapping[Chat, float]) -> None:
        """Look for what others have left behind, and try what is due in chats that may be written to."""
        await self._search()
        for standing, wait in list(self.waiting.items()):
            now = self._monotonic()
            if now < max(wait.due, free_at.get(standing.chat, 0.0)):
                continue
            if await self._database.read(partial(_is_being_told, standing)):
                continue
            wait.tries += 1
            wait.due = now + min(_FIRST_WAIT * 2 ** (wait.tries - 1), _LONGEST_WAIT)
            if await self._is_over(standing) or now - wait.since > _GIVEN_UP_AFTER.total_seconds():
                await self._forget(standing)

    async def _is_over(self, standing: Standing) -> bool:
        """Whether a preview is gone, or stands there as something that may stay."""
        desk = self._desks[standing.origin]
        became = await self._try(standing, remove(desk, standing.where, standing.draft))
        if became == "refused":
            became = await self._try(standing, show(desk, standing.where, OVER, standing.draft))
        if became == "refused":
            _log.warning(
                "a preview can be neither removed nor changed and stays",
                session_id=standing.session_id,
                origin=desk.origin,
            )
        return became != "again"

    async def _try(self, standing: Standing, request: Request) -> Fate:
        answer = await self._ask(standing.chat, request)
        return "again" if answer is None else fate(standing.origin, answer)

    async def _forget(self, standing: Standing) -> None:
        await self._database.write(partial(leftovers.forget, standing))
        self.waiting.pop(standing, None)

    async def _search(self) -> None:
        """Take over previews of processes that have died, or could not be heard of for long."""
        moment, now = self._monotonic(), self._database.clock.now()
        if moment - self._searched < _SEARCH_SECONDS:
            return
        self._searched = moment
        found = await self._database.read(partial(leftovers.forgotten, self._holder, tuple(self._desks), now))
        for standing, shown_by, shown_at in found:
            if shown_at + _GIVEN_UP_AFTER < now:
                await self._forget(standing)
            elif await self._database.write(partial(leftovers.take, standing, shown_by, self._holder, now)):
                self.add(standing)


def _is_being_told(standing: Standing) -> Step[bool]:
    rows = yield queries.chats_and_words(session_id=standing.session_id)
    return any((row[0], row[1]) == standing.chat and row[2] for row in rows)
