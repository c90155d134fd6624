"""Finding an inbox service over the broker that its users share anyway; for development, where nobody writes addresses down.

    who looks                        pillarbox.discovery (fanout)             services
      ping {kind, correlationId} ──────────────┴──────────────────────────────── each Announcer
      the reply queue  ◄── announcement {kind, name, version, endpoint, ..., priority, correlationId} ──┘

Whoever may publish on the broker can answer, and is then given the caller's keys and bearer token. So in production it is off
unless it is allowed, and an endpoint that was configured is taken as it is.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
from aio_pika import ExchangeType, Message
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractExchange, AbstractIncomingMessage
from aio_pika.exceptions import CONNECTION_EXCEPTIONS
from msgspec import Meta

from pillarbox.errors import InvalidInput
from pillarbox.inbox.announcement import KIND, Announcement, InboxEndpoint
from pillarbox.text import printable

EXCHANGE = "pillarbox.discovery"
ROUND_SECONDS, SETTLE_SECONDS, CACHE_SECONDS = 3.0, 0.15, 300.0
_SHORTEST_TTL, _LONGEST_TTL = 2.0, 5.0
_LARGEST_ANNOUNCEMENT = 16 * 1024
_MOST_ANNOUNCEMENTS = 100
_CLOSE_SECONDS = 0.5

_log = logging.getLogger(__name__)

Priority = Annotated[int, Meta(ge=-(2**31), lt=2**31)]


class Ping(msgspec.Struct, frozen=True, rename="camel"):
    """The question who serves an inbox."""

    kind: str
    correlation_id: Annotated[str, Meta(min_length=1, max_length=255)]


class Answer(Announcement, frozen=True, rename="camel", kw_only=True):
    """A service's announcement, in answer to one ping."""

    priority: Priority = 0
    correlation_id: str


def choose(answers: Sequence[Answer]) -> Answer | None:
    """The answer that everybody with the same answers chooses: the highest priority, then the first by name, then by address."""
    return min(answers, key=lambda each: (-each.priority, each.name, each.endpoint.url), default=None)


def read_answer(body: bytes, correlation_id: str) -> Answer | None:
    """An answer to our own ping that can be used, or None."""
    if len(body) > _LARGEST_ANNOUNCEMENT:
        return None
    try:
        answer = msgspec.json.decode(body, type=Answer)
        fits = answer.kind == KIND and answer.correlation_id == correlation_id and _can_be_told(answer.endpoint)
    except (ValueError, RecursionError):
        return None
    return answer if fits and answer.name else None


def _can_be_told(endpoint: InboxEndpoint) -> bool:
    """An http address without anything that could be a secret."""
    try:
        parts = urlsplit(endpoint.url)
    except ValueError:
        return False
    plain = not (parts.username or parts.password or parts.query or parts.fragment)
    return plain and bool(parts.hostname) and parts.scheme in ("http", "https") and parts.scheme == endpoint.scheme


class Discovery:
    """Finds the inbox service to use: `await Discovery(connection).find()`.

    `endpoint`: the address that was configured; with one nobody is asked.
    `environment`: in `production` nobody is asked unless `allowed` is `always`.
    `round_seconds` bounds a search, which ends `settle_seconds` after the first answer; what was found is kept for
    `cache_seconds`.
    """

    def __init__(
        self,
        connection: AbstractConnection,
        *,
        endpoint: str | None = None,
        environment: Literal["production", "development"] = "production",
        allowed: Literal["always", "outside production"] = "outside production",
        exchange: str = EXCHANGE,
        round_seconds: float = ROUND_SECONDS,
        settle_seconds: float = SETTLE_SECONDS,
        cache_seconds: float = CACHE_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._explicit = None if endpoint is None else explicit_endpoint(endpoint)
        self._may_ask = environment != "production" or allowed == "always"
        self._exchange = exchange
        self._round = round_seconds
        self._settle = settle_seconds
        self._cache = cache_seconds
        self._monotonic = monotonic
        self._found: Answer | None = None
        self._found_at = 0.0
        self._warned = False
        self._asking = asyncio.Lock()

    async def find(self) -> InboxEndpoint | None:
        """Where the inbox is, or None when it was not configured and nobody may be asked or nobody answered."""
        if self._explicit is not None or not self._may_ask:
            return self._explicit
        async with self._asking:
            if self._found is None or self._monotonic() - self._found_at >= self._cache:
                self._found, self._found_at = choose(await self._ask()), self._monotonic()
                self._tell()
        return self._found.endpoint if self._found else None

    def _tell(self) -> None:
        if self._found is not None:
            self._warned = False
            _log.info("using the inbox service %s, found over the broker", printable(self._found.name))
        elif not self._warned:
            self._warned = True
            _log.warning("no inbox service answered on the broker; start one, or configure its endpoint")

    async def _ask(self) -> list[Answer]:
        answers: list[Answer] = []
        with suppress(TimeoutError, *CONNECTION_EXCEPTIONS):
            async with asyncio.timeout(self._round) as until:
                channel = await self._connection.channel()
                try:
                    await self._gather(channel, answers, until)
                finally:
                    await _close(channel)
        return answers

    async def _gather(self, channel: AbstractChannel, answers: list[Answer], until: asyncio.Timeout) -> None:
        exchange = await declare_exchange(channel, self._exchange)
        replies = await channel.declare_queue(exclusive=True, auto_delete=True)
        arrived: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
        await replies.consume(arrived.put, no_ack=True)
        correlation_id = uuid.uuid4().hex
        await exchange.publish(self._ping(correlation_id, reply_to=replies.name), routing_key="")
        while len(answers) < _MOST_ANNOUNCEMENTS:
            answer = read_answer((await arrived.get()).body, correlation_id)
            if answer is None:
                _log.info("an announcement that cannot be used was ignored")
                continue
            if not answers:
                self._settle_soon(until)
            answers.append(answer)

    def _ping(self, correlation_id: str, *, reply_to: str) -> Message:
        return Message(
            msgspec.json.encode(Ping(kind=KIND, correlation_id=correlation_id)),
            content_type="application/json",
            correlation_id=correlation_id,
            reply_to=reply_to,
            expiration=min(max(self._round, _SHORTEST_TTL), _LONGEST_TTL),
        )

    def _settle_soon(self, until: asyncio.Timeout) -> None:
        """The round goes on a little for those who answer as fast as the first, and never beyond its end."""
        soon = asyncio.get_running_loop().time() + self._settle
        until.reschedule(min(until.when() or soon, soon))


async def _close(channel: AbstractChannel) -> None:
    """Close the channel and with it the reply queue; a broker that does not answer drops both with the connection."""
    with suppress(TimeoutError, *CONNECTION_EXCEPTIONS):
        async with asyncio.timeout(_CLOSE_SECONDS):
            await channel.close()


class Announcer:
    """Answers the pings on a broker with a service's announcement, until `stop` or the end of the connection."""

    def __init__(
        self, connection: AbstractConnection, announcement: Announcement, *, priority: int = 0, exchange: str = EXCHANGE
    ) -> None:
        if not _can_be_told(announcement.endpoint):
            raise InvalidInput(
                "url", "must be an http address without user, password, query or fragment to be announced."
            )
        self._connection = connection
        self._announcement = announcement
        self._priority = priority
        self._exchange = exchange
        self._channel: AbstractChannel | None = None

    async def start(self) -> None:
        """Listen for pings from now on; a robust connection listens again whenever it had to reconnect."""
        self._channel = await self._connection.channel()
        exchange = await declare_exchange(self._channel, self._exchange)
        # Named by us, so that the queue and its consumer can be restored under the same name.
        queue = await self._channel.declare_queue(
            f"{self._exchange}.{uuid.uuid4().hex}", exclusive=True, auto_delete=True, durable=False
        )
        await queue.bind(exchange)
        await queue.consume(self._answer, no_ack=True)

    async def stop(self) -> None:
        """Answer no more."""
        if self._channel is not None:
            await self._channel.close()

    async def _answer(self, message: AbstractIncomingMessage) -> None:
        try:
            ping = msgspec.json.decode(message.body, type=Ping)
        except (ValueError, RecursionError):
            return
        if ping.kind != KIND or not message.reply_to or self._channel is None:
            return
        answer = Answer(
            **msgspec.structs.asdict(self._announcement), priority=self._priority, correlation_id=ping.correlation_id
        )
        with suppress(*CONNECTION_EXCEPTIONS):
            await self._channel.default_exchange.publish(
                Message(
                    msgspec.json.encode(answer),
                    content_type="application/json",
                    correlation_id=ping.correlation_id,
                    expiration=_LONGEST_TTL,
                ),
                routing_key=message.reply_to,
                mandatory=False,
            )


def explicit_endpoint(url: str) -> InboxEndpoint:
    """The endpoint behind a configured address."""
    endpoint = InboxEndpoint(scheme=url.partition(":")[0].lower(), url=url, auth="bearer")
    if not _can_be_told(endpoint):
        raise InvalidInput("endpoint", "must be an http or https address without user, password, query or fragment.")
    return endpoint


async def declare_exchange(channel: AbstractChannel, name: str) -> AbstractExchange:
    return await channel.declare_exchange(name, ExchangeType.FANOUT, durable=False, auto_delete=False)
