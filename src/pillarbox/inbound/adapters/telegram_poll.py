"""Asking Telegram for updates: an update is confirmed only once its message is on disk."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec

from pillarbox.engine import Backoff
from pillarbox.errors import Unavailable
from pillarbox.inbound.adapter import Adapters
from pillarbox.inbound.adapters.documents import NotJson, at, items_at, number_at, read_document
from pillarbox.inbound.adapters.telegram import UPDATES, bot_of, message_in
from pillarbox.posting import trouble
from pillarbox.telemetry import brief, logger

# aiohttp takes most of a second to import on a busy machine, which a process that does not poll must not pay.
if TYPE_CHECKING:
    from aiohttp import ClientSession

_log = logger(__name__)

_AT_ONCE = 100
_SECONDS_TO_ANSWER = 15.0
_LARGEST_ANSWER = 64 * 1024 * 1024
_LONGEST_WAIT = 3600.0
_LEAST_SECONDS = 1.0
# Telegram counts updates up from some number; whoever confirmed one like this would never be told of another.
_BEYOND_ANY_UPDATE = 2**53


class Refused(Exception):
    """Telegram gave no updates; the text says why in our own words, for the token is part of the address."""

    def __init__(self, why: str, *, wait: float | None = None) -> None:
        super().__init__(why)
        self.wait = wait


@dataclass(frozen=True, slots=True)
class PollPolicy:
    """Where to ask, as whom, how long a question may stay open, and how long to wait after one that failed."""

    base_url: str
    bot_token: str
    hold_seconds: float
    backoff: Backoff


class TelegramPoller:
    """The long-poll loop of one bot.

    `offset` is the update after the last one that is on disk, and the next question confirms all before it. A process
    that dies in between is told those again, and they are recognised by their ids.
    """

    def __init__(self, adapters: Adapters, policy: PollPolicy, *, random: Random) -> None:
        self._adapters = adapters
        self._policy = policy
        self._random = random
        self._bot = bot_of(policy.bot_token)
        self._offset: int | None = None

    async def run(self) -> None:
        """Ask, store, confirm, until cancelled."""
        from aiohttp import ClientSession, DummyCookieJar

        failures, said = 0, ""
        async with ClientSession(cookie_jar=DummyCookieJar(), trust_env=False) as client:
            while True:
                try:
                    began, before = monotonic(), self._offset
                    await self._store(await self._ask(client))
                    failures, said = 0, ""
                    if self._offset == before:
                        # A server that does not hold the question open, or only tells what nobody can confirm, is not
                        # asked again and again.
                        least = min(_LEAST_SECONDS, self._policy.hold_seconds)
                        await asyncio.sleep(max(0.0, least - (monotonic() - began)))
                except Exception as reason:
                    failures += 1
                    expected = isinstance(reason, Refused | Unavailable)
                    why = brief(reason) if expected else type(reason).__name__
                    if why != said:
                        _log.warning("messages from Telegram have to wait", error=why)
                    said = why
                    await asyncio.sleep(self._wait(reason, failures))

    def _wait(self, reason: Exception, failures: int) -> float:
        wanted = reason.wait if isinstance(reason, Refused) else None
        wait = self._policy.backoff.delay(failures, self._random)
        return wait if wanted is None else min(max(wanted, wait), _LONGEST_WAIT)

    async def _ask(self, client: ClientSession) -> list[Any]:
        """The next updates, those before `offset` being confirmed; or `Refused`."""
        from aiohttp import ClientError, ClientTimeout

        hold = int(self._policy.hold_seconds)
        question: dict[str, Any] = {"timeout": hold, "limit": _AT_ONCE, "allowed_updates": UPDATES}
        if self._offset is not None:
            question["offset"] = self._offset
        try:
            async with client.post(
                f"{self._policy.base_url}/bot{self._policy.bot_token}/getUpdates",
                data=msgspec.json.encode(question),
                headers={"Content-Type": "application/json", "User-Agent": "Pillarbox"},
                allow_redirects=False,
                timeout=ClientTimeout(total=hold + _SECONDS_TO_ANSWER),
            ) as response:
                body = bytearray()
                async for piece in response.content.iter_any():
                    body += piece
                    if len(body) > _LARGEST_ANSWER:
                        raise Refused("Telegram's answer is larger than any it can give.")
                return _updates(response.status, bytes(body))
        except TimeoutError:
            raise Refused("Telegram did not answer in time.") from None
        except (ClientError, OSError) as error:
            raise Refused(trouble(error, "Telegram API")) from None

    async def _store(self, updates: list[Any]) -> None:
        """Each update in turn; one that cannot be read is passed over, for it would be told for ever."""
        for update in updates:
            number = number_at(update, "update_id")
            if number is None or not 0 <= number < _BEYOND_ANY_UPDATE:
                continue
            try:
                message = message_in(update, bot=self._bot)
                if message is not None:
                    await self._adapters.take(message)
            except Unavailable:
                raise
            except Exception as error:
                _log.error("an update of Telegram was left out; this is a bug in Pillarbox", error=type(error).__name__)
            self._offset = max(number + 1, self._offset or 0)


def _updates(status: int, body: bytes) -> list[Any]:
    try:
        answer = read_document(body)
    except NotJson:
        raise Refused(f"Telegram answered HTTP {status} without JSON.") from None
    if status == 200 and at(answer, "ok") is True:
        return items_at(answer, "result")
    match status:
        case 409:
            raise Refused("Telegram says that another process asks for this bot's updates, or that a webhook is set.")
        case 429:
            wait = number_at(answer, "parameters", "retry_after")
            raise Refused("Telegram asks for a pause.", wait=None if wait is None else float(wait))
        case 401 | 403 | 404:
            raise Refused("Telegram does not know this bot; check adapters.telegram.bot_token and base_url.")
        case _:
            raise Refused(f"Telegram answered HTTP {status}.")
