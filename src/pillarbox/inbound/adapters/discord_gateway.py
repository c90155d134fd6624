"""Staying connected to Discord's gateway: hikari keeps the connection, heartbeats and resumes; what it hears is read here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from random import Random
from typing import TYPE_CHECKING, Any

from pillarbox.clock import Clock
from pillarbox.engine import Backoff
from pillarbox.inbound.adapter import Adapters
from pillarbox.inbound.adapters.discord import Listening
from pillarbox.inbound.adapters.discord_quiet import hush
from pillarbox.inbound.adapters.discord_reading import DiscordReader, TooFarBehind
from pillarbox.inbound.adapters.discord_rest import DiscordRest, Refused
from pillarbox.inbound.positions import Positions
from pillarbox.telemetry import logger

# An extra, and slow to import: whoever has no Discord needs neither.
if TYPE_CHECKING:
    from hikari import GatewayBot

_log = logger(__name__)

_LONG_ENOUGH = 60.0
_UNKNOWN_BOT = "Discord does not know this bot; check adapters.discord.bot_token and base_url."
_CLOSINGS = {
    4004: _UNKNOWN_BOT,
    4013: "Discord refuses what the bot wants to hear.",
    4014: "Discord refuses what the bot wants to hear; switch on its Message Content Intent.",
}


@dataclass(frozen=True, slots=True)
class DiscordPolicy:
    """Where Discord is, as whom to connect, what to listen to, and how long to wait after a connection that failed."""

    base_url: str
    bot_token: str
    listening: Listening
    backoff: Backoff


class DiscordGateway:
    """One bot's connection, made again whenever it ends."""

    def __init__(
        self, adapters: Adapters, positions: Positions, policy: DiscordPolicy, *, clock: Clock, random: Random
    ) -> None:
        self._adapters = adapters
        self._positions = positions
        self._policy = policy
        self._clock = clock
        self._random = random

    async def run(self) -> None:
        """Connect, listen, connect again, until cancelled."""
        # Slow to import; nobody comes here without it, for a box asks for its extras before it runs.
        await asyncio.to_thread(import_module, "hikari")
        hush()
        failures, said = 0, ""
        while True:
            began = self._clock.monotonic()
            try:
                await self._listen()
                why = "Discord ended the connection."
            except Exception as reason:
                why = _words(reason)
            failures = 1 if self._clock.monotonic() - began > _LONG_ENOUGH else failures + 1
            if why != said:
                _log.warning("the connection to Discord ended and is made again", error=why)
            said = why
            await asyncio.sleep(self._policy.backoff.delay(failures, self._random))

    async def _listen(self) -> None:
        from aiohttp import ClientSession, DummyCookieJar

        policy = self._policy
        async with ClientSession(cookie_jar=DummyCookieJar(), trust_env=False) as client:
            rest = DiscordRest(client, base_url=policy.base_url, bot_token=policy.bot_token, clock=self._clock)
            reader = DiscordReader(
                self._adapters,
                self._positions,
                rest,
                listening=policy.listening,
                backoff=policy.backoff,
                clock=self._clock,
                random=self._random,
            )
            bot = _bot(policy, reader.hear)
            tasks = [asyncio.create_task(reader.run()), asyncio.create_task(_connect(bot))]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


async def _connect(bot: GatewayBot) -> None:
    try:
        await bot.start(check_for_updates=False)
        await bot.join()
    finally:
        if bot.is_alive:
            await bot.close()


def _bot(policy: DiscordPolicy, hear: Callable[[str, Any], None]) -> GatewayBot:
    from hikari import GatewayBot, Intents, ShardPayloadEvent
    from hikari.api import CacheComponents
    from hikari.impl import CacheSettings

    intents = Intents.GUILDS | Intents.GUILD_MESSAGES | Intents.MESSAGE_CONTENT
    if policy.listening.direct_messages:
        intents |= Intents.DM_MESSAGES
    bot = GatewayBot(
        policy.bot_token,
        banner=None,
        logs=None,
        suppress_optimization_warning=True,
        cache_settings=CacheSettings(components=CacheComponents.NONE),
        intents=intents,
        auto_chunk_members=False,
        rest_url=policy.base_url,
    )

    # Without a wait in it, so that what was told first is heard first.
    async def told(event: ShardPayloadEvent) -> None:
        with suppress(AttributeError):
            # hikari takes anything for a payload, a text too.
            hear(event.name, dict(event.payload))

    bot.subscribe(ShardPayloadEvent, told)
    return bot


def _words(reason: Exception) -> str:
    """Why a connection ended, in our words alone: an error's own text may quote the token."""
    import hikari

    match reason:
        case Refused():
            return str(reason)
        case TooFarBehind():
            return "More was written in Discord than could be stored; it is fetched after connecting again."
        case hikari.UnauthorizedError():
            return _UNKNOWN_BOT
        case hikari.GatewayServerClosedConnectionError():
            return _CLOSINGS.get(int(reason.code or 0), f"Discord closed the connection with code {reason.code}.")
        case ValueError():
            return "adapters.discord.bot_token is not a bot's token."
        case hikari.HikariError():
            return f"Discord could not be reached ({type(reason).__name__})."
        case _:
            return type(reason).__name__
