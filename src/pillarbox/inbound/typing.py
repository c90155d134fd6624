"""Showing people that their message is safe and worked on: each chat's indicator is a lease, which ends by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import msgspec

from pillarbox.clock import Clock
from pillarbox.engine import Delivered, Outcome
from pillarbox.inbound.adapters.documents import NotJson, number_at, read_document
from pillarbox.inbound.model import InboundMessage
from pillarbox.posting import Poster, Reply, Unreached
from pillarbox.telemetry import logger

_log = logger(__name__)

_SECONDS_TO_ANSWER = 5.0
_LONGEST_HOLD = 3600.0
_MOST_LEASES = 1000
_MOST_REMEMBERED = 10_000


class Chat(NamedTuple):
    """Where an indicator is shown, and the message that it is shown for."""

    origin: str
    channel_id: str
    source_message_id: str | None
    payload: dict[str, Any]


class Request(NamedTuple):
    """What shows the indicator once."""

    url: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Indicator:
    """How one platform shows that somebody is writing, how soon that must be repeated, and how often it may be.

    `by_message` means that it is shown for one message and not for the chat. A request that cannot be made is None.
    """

    origin: str
    request: Callable[[Chat], Request | None]
    refresh_seconds: float
    per_second: float
    by_message: bool = False


@dataclass(slots=True)
class _Platform:
    """An indicator with its budget; a platform that asks for a pause gets it."""

    indicator: Indicator
    tokens: float
    filled_at: float
    held_until: float = 0.0

    def may(self, now: float) -> bool:
        """Take one from the budget, if there is one and no pause was asked for."""
        most = self.indicator.per_second
        self.tokens = min(most, self.tokens + (now - self.filled_at) * most)
        self.filled_at = now
        if now < self.held_until or self.tokens < 1:
            return False
        self.tokens -= 1
        return True


@dataclass(slots=True)
class _Lease:
    """One chat's indicator: lit while attempts are under way, and after a delivery until the turn or its time is over."""

    chat: Chat
    session_id: str
    attempts: int = 0
    delivered_at: datetime | None = None
    ends_at: float = 0.0
    replied: bool = False
    ended: bool = False


class Typing:
    """Shows, refreshes and ends the indicators of this process; nothing here can delay or fail a delivery.

    `is_over` tells whether the turn that began at a delivery has ended, None where nobody can say; it is asked before each
    refresh, so that an end that another process heard of counts here too.
    """

    def __init__(
        self,
        indicators: Iterable[Indicator],
        *,
        limit: float,
        is_over: Callable[[str, datetime], Awaitable[bool | None]],
        clock: Clock,
    ) -> None:
        now = clock.monotonic()
        self._platforms = {each.origin: _Platform(each, each.per_second, now) for each in indicators}
        self._limit = limit
        self._is_over = is_over
        self._clock = clock
        self._poster = Poster()
        self._leases: dict[tuple[str, str, str], _Lease] = {}
        self._shown_at: dict[tuple[str, str, str | None], float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def received(self, chat: Chat) -> None:
        """A message is on disk: show that once."""
        if chat.origin in self._platforms and len(self._tasks) < _MOST_LEASES:
            self._begin(partial(self._show, chat))

    async def attempt(self, message: InboundMessage, delivery: Awaitable[Outcome]) -> Outcome:
        """Deliver, with the indicator lit meanwhile and, after a delivery, while the turn lasts."""
        lease, outcome = self._lit(message), None
        try:
            outcome = await delivery
            return outcome
        finally:
            if lease is not None:
                self._landed(lease, delivered=isinstance(outcome, Delivered))

    def replied(self, origin: str, channel_id: str) -> None:
        """Something was said in this chat: its indicators end, unless the agent is known to be still at work."""
        for key, lease in self._leases.items():
            if key[:2] == (origin, channel_id):
                lease.replied = True

    @property
    def lit(self) -> int:
        """How many chats this process shows an indicator in."""
        return len(self._leases)

    @property
    def busy(self) -> bool:
        """Whether anything is being shown or kept."""
        return bool(self._tasks)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._poster.close()

    def _lit(self, message: InboundMessage) -> _Lease | None:
        if message.origin not in self._platforms or message.source_channel_id is None:
            return None
        key = message.origin, message.source_channel_id, message.session_id
        lease, chat = self._leases.get(key), chat_of(message)
        if lease is None or lease.ended:
            if len(self._leases) >= _MOST_LEASES:
                return None
            lease = self._leases[key] = _Lease(chat, message.session_id)
            self._begin(partial(self._keep, key, lease))
        lease.chat = chat
        lease.attempts += 1
        return lease

    def _landed(self, lease: _Lease, *, delivered: bool) -> None:
        lease.attempts -= 1
        if delivered:
            now = self._clock.now()
            lease.delivered_at = self._clock.shown(now)
            lease.ends_at = self._clock.monotonic() + self._limit
            lease.replied = False
        elif lease.attempts == 0 and lease.delivered_at is None:
            lease.ended = True

    async def _keep(self, key: tuple[str, str, str], lease: _Lease) -> None:
        """Show, wait, show again, while there is a reason to."""
        indicator = self._platforms[lease.chat.origin].indicator
        try:
            while await self._goes_on(lease):
                if not await self._show(lease.chat):
                    return
                await asyncio.sleep(indicator.refresh_seconds)
        finally:
            lease.ended = True
            if self._leases.get(key) is lease:
                del self._leases[key]

    async def _goes_on(self, lease: _Lease) -> bool:
        if lease.ended or lease.attempts > 0 or lease.delivered_at is None:
            return not lease.ended
        if self._clock.monotonic() >= lease.ends_at:
            return False
        try:
            over = await self._is_over(lease.session_id, lease.delivered_at)
        except Exception:
            over = None
        return not (over or (over is None and lease.replied))

    async def _show(self, chat: Chat) -> bool:
        """Show it once, unless it is lit or the platform has enough of us; false where it is not welcome."""
        platform = self._platforms[chat.origin]
        indicator, now = platform.indicator, self._clock.monotonic()
        key = chat.origin, chat.channel_id, chat.source_message_id if indicator.by_message else None
        lit = now - self._shown_at.get(key, -indicator.refresh_seconds) < indicator.refresh_seconds * 0.9
        request = None if lit or not platform.may(now) else indicator.request(chat)
        if request is None:
            return True
        if len(self._shown_at) >= _MOST_REMEMBERED:
            del self._shown_at[next(iter(self._shown_at))]
        self._shown_at[key] = now
        try:
            async with asyncio.timeout(_SECONDS_TO_ANSWER), self._poster.post(*request) as reply:
                if reply.status == 429:
                    hold = min(await _pause_in(reply), _LONGEST_HOLD)
                    platform.held_until = self._clock.monotonic() + hold
                return reply.status == 429 or not 400 <= reply.status < 500
        except (Unreached, TimeoutError) as error:
            _log.debug("an indicator could not be shown", origin=chat.origin, error=type(error).__name__)
            return True

    def _begin(self, show: Callable[[], Awaitable[object]]) -> None:
        async def quietly() -> None:
            try:
                await show()
            except Exception as error:
                _log.warning("an indicator could not be shown", error=type(error).__name__)

        task = asyncio.create_task(quietly())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def chat_of(message: InboundMessage) -> Chat:
    payload: Any = None
    if message.payload_json is not None:
        try:
            payload = msgspec.json.decode(message.payload_json)
        except (ValueError, RecursionError):
            payload = None
    channel = message.source_channel_id or ""
    return Chat(message.origin, channel, message.source_message_id, payload if isinstance(payload, dict) else {})


async def _pause_in(reply: Reply) -> float:
    """How long a platform wants to be left alone: by its header, or as Telegram says it."""
    if (told := reply.retry_after or "").isascii() and told.isdigit():
        return float(told)
    try:
        seconds = number_at(read_document(await reply.read()), "parameters", "retry_after")
    except NotJson:
        seconds = None
    return float(seconds) if seconds is not None and seconds >= 0 else 1.0
