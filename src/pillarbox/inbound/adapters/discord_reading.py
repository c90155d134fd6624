"""Reading what Discord's gateway tells, and over REST what it told while nobody listened."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, TypeVar

from pillarbox.clock import Clock
from pillarbox.engine import Backoff
from pillarbox.errors import Unavailable
from pillarbox.inbound.adapter import Adapters
from pillarbox.inbound.adapters.discord import (
    ORIGIN,
    Listening,
    Place,
    Told,
    channel_in,
    channels_in,
    is_heard,
    message_in,
    snowflake,
    snowflake_of,
)
from pillarbox.inbound.adapters.discord_rest import AT_ONCE, Barred, DiscordRest, Gone, Refused
from pillarbox.inbound.adapters.documents import at, text_at
from pillarbox.inbound.positions import Position, Positions
from pillarbox.telemetry import brief, logger

_log = logger(__name__)

T = TypeVar("T")

SINCE = "since"
"""The place whose position is the moment of the first connection: nothing older is ever fetched."""

_MOST_WAITING = 10_000
_MOST_PLACES = 100_000
_CHANGED = ("CHANNEL_CREATE", "CHANNEL_UPDATE", "THREAD_CREATE", "THREAD_UPDATE")
_DELETED = ("CHANNEL_DELETE", "THREAD_DELETE")
HEARD = frozenset({"READY", "GUILD_CREATE", "THREAD_LIST_SYNC", "MESSAGE_CREATE", *_CHANGED, *_DELETED})


class TooFarBehind(Exception):
    """More was told than could be stored meanwhile: connecting again fetches what was not kept."""


class DiscordReader:
    """Stores messages in the order of each channel, whether they are told or have to be fetched.

    After every new session of the gateway each channel that has more than was stored is behind: it is read over REST from its
    position, a page at a time between what is told, and what is told of it in the meantime waits for that.
    """

    def __init__(
        self,
        adapters: Adapters,
        positions: Positions,
        rest: DiscordRest,
        *,
        listening: Listening,
        backoff: Backoff,
        clock: Clock,
        random: Random,
    ) -> None:
        self._adapters = adapters
        self._positions = positions
        self._rest = rest
        self._listening = listening
        self._backoff = backoff
        self._clock = clock
        self._random = random
        self._told: asyncio.Queue[tuple[str, Any]] = asyncio.Queue(_MOST_WAITING)
        self._overflowed = False
        self._guilds: set[str] = set()
        self._places: dict[str, Place] = {}
        self._known: dict[str, int] = {}
        self._behind: dict[str, list[Any]] = {}
        self._refusals = 0
        self._fetch_at = 0.0

    def hear(self, name: str, payload: Any) -> None:
        """Something was told; what finds no room is fetched later."""
        if name in HEARD and not self._overflowed:
            try:
                self._told.put_nowait((name, payload))
            except asyncio.QueueFull:
                self._overflowed = True

    async def run(self) -> None:
        """Store what is told as it comes, and in between what was missed."""
        while not (self._overflowed and self._told.empty()):
            wait = self._fetch_at - self._clock.monotonic() if self._behind else None
            if self._told.empty() and wait is not None and wait <= 0:
                await self._catch_up(next(iter(self._behind)))
                continue
            try:
                async with asyncio.timeout(wait):
                    name, payload = await self._told.get()
            except TimeoutError:
                continue
            await self._take_in(name, payload)
        raise TooFarBehind

    async def _take_in(self, name: str, payload: Any) -> None:
        match name:
            case "READY":
                await self._begin()
            case "GUILD_CREATE" | "THREAD_LIST_SYNC":
                guild = text_at(payload, "guild_id") or text_at(payload, "id")
                self._guilds.add(guild)
                for told in channels_in({**payload, "id": guild}):
                    self._learn(told)
            case "MESSAGE_CREATE":
                channel = text_at(payload, "channel_id")
                guild = text_at(payload, "guild_id")
                if snowflake(channel) is None:
                    return
                if channel in self._behind or (guild and guild not in self._guilds):
                    self._keep(channel, payload)
                else:
                    await self._store_or_keep(channel, payload)
            case _ if name in _DELETED and snowflake(at(payload, "id")) is not None:
                self._places.pop(text_at(payload, "id"), None)
                await self._leave(text_at(payload, "id"))
            case _ if (changed := channel_in(payload)) is not None:
                self._remember(changed)

    async def _begin(self) -> None:
        """A new session of the gateway: whatever was told before it and not stored has to be fetched."""
        self._known = await self._insist(self._positions.known)
        if SINCE not in self._known:
            now = snowflake_of(self._clock.shown(self._clock.now()).timestamp())
            await self._insist(lambda: self._positions.move(SINCE, now))
            self._known[SINCE] = now
        self._behind = {channel: [] for channel in self._known if channel != SINCE}
        # Until a guild has told what it holds, nobody knows whether a message of it is the next one.
        self._guilds.clear()

    def _learn(self, told: Told) -> None:
        """A channel as it is now: behind, if it has a newer message than was stored."""
        self._remember(told)
        newest_stored = self._known.get(told.channel, self._known.get(SINCE, 0))
        if is_heard(self._listening, told.channel, told.place) and told.newest > newest_stored:
            self._behind.setdefault(told.channel, [])
        elif not self._behind.get(told.channel):
            self._behind.pop(told.channel, None)

    def _remember(self, told: Told) -> None:
        if len(self._places) >= _MOST_PLACES:
            self._places.pop(next(iter(self._places)))
        self._places[told.channel] = told.place

    def _keep(self, channel: str, message: Any) -> None:
        """A message that waits until its channel has caught up."""
        waiting = self._behind.setdefault(channel, [])
        if len(waiting) == _MOST_WAITING:
            raise TooFarBehind
        waiting.append(message)

    async def _store_or_keep(self, channel: str, message: Any) -> None:
        try:
            await self._store(message, channel)
        except Refused as reason:
            self._pause(reason)
            self._keep(channel, message)

    async def _catch_up(self, channel: str) -> None:
        """The next page of a channel that is behind; after the last one come the messages that waited for it."""
        try:
            if await self._read_page(channel):
                # The others get their turn before the next page.
                self._behind[channel] = self._behind.pop(channel)
                return
            waiting = self._behind[channel]
            while waiting:
                await self._store(waiting[0], channel)
                waiting.pop(0)
            del self._behind[channel]
            self._refusals = 0
        except Refused as reason:
            self._pause(reason)
        except Gone:
            await self._leave(channel)

    async def _read_page(self, channel: str) -> bool:
        """Store up to a hundred messages after the position, move it, and tell whether there may be more."""
        position = self._known.get(channel, self._known.get(SINCE, 0))
        try:
            messages = await self._rest.messages_after(channel, position)
        except Barred:
            _log.warning(
                "missed messages of a Discord channel cannot be read; let the bot read its history", id=channel
            )
            return False
        for message in messages:
            await self._store({**message, "channel_id": channel} if isinstance(message, dict) else None, channel)
        newest = max((snowflake(at(message, "id")) or 0 for message in messages), default=0)
        if newest <= position:
            return False
        await self._insist(lambda: self._positions.move(channel, newest))
        self._known[channel] = newest
        return len(messages) == AT_ONCE

    def _pause(self, reason: Refused) -> None:
        self._refusals += 1
        wait = max(self._backoff.delay(self._refusals, self._random), reason.wait or 0.0)
        self._fetch_at = self._clock.monotonic() + wait
        _log.warning("missed messages of Discord have to wait", error=brief(reason), seconds=round(wait, 1))

    async def _leave(self, channel: str) -> None:
        self._behind.pop(channel, None)
        if self._known.pop(channel, None) is not None:
            await self._insist(lambda: self._positions.forget(channel))

    async def _store(self, message: Any, channel: str) -> None:
        """One message, until the database has it; one that is nobody's is passed over."""
        number = snowflake(at(message, "id"))
        if number is None or snowflake(channel) is None:
            return
        place = await self._place_of(channel, message)
        if not is_heard(self._listening, channel, place):
            return
        try:
            received = message_in(message, place, threads=self._listening.threads)
        except Exception as error:
            _log.error("a message of Discord was left out; this is a bug in Pillarbox", error=type(error).__name__)
            return
        if received is not None:
            await self._insist(lambda: self._adapters.take(received, position=Position(ORIGIN, channel, number)))

    async def _place_of(self, channel: str, message: Any) -> Place:
        """Where a message was written; Discord is asked only where that decides anything."""
        if channel in self._places:
            return self._places[channel]
        guild = text_at(message, "guild_id")
        told_live = at(message, "member") is not None or bool(guild)
        if told_live and not self._listening.channels and self._listening.threads == "own":
            return Place(guild or None)
        try:
            told = channel_in(await self._rest.channel(channel))
        except (Gone, Barred):
            told = None
        if told is None:
            return Place(guild or None)
        self._remember(told)
        return told.place

    async def _insist(self, act: Callable[[], Awaitable[T]]) -> T:
        """Do it as soon as the database lets us; what is told meanwhile waits, and what finds no room is fetched."""
        failures = 0
        while True:
            try:
                return await act()
            except Unavailable as error:
                failures += 1
                if failures == 1:
                    _log.warning("messages from Discord have to wait", error=brief(error))
                await asyncio.sleep(self._backoff.delay(failures, self._random))
