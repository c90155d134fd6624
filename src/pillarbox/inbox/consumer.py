"""A consumer for RabbitMQ, on aio-pika, that handles each message of a queue once in its group."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from random import Random
from typing import Literal

from aio_pika import RobustQueue
from aio_pika.abc import AbstractIncomingMessage, AbstractQueue, ConsumerTag
from aio_pika.exceptions import CONNECTION_EXCEPTIONS
from aiormq.abc import AbstractChannel

from pillarbox.errors import InvalidInput
from pillarbox.inbox.delivery import AfterFailure, Delivery, Handle, What
from pillarbox.inbox.door import Inbox, check_key
from pillarbox.inbox.keys import inbox_key
from pillarbox.inbox.once import Once
from pillarbox.inbox.store import InboxStore
from pillarbox.text import check_name, printable

__all__ = ["AfterFailure", "Handle", "InboxConsumer", "Pauses", "What"]

_log = logging.getLogger(__name__)

_LONGEST_NAME = 255
_ANSWER_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Pauses:
    """How many seconds the consumer waits for what."""

    first: float = 0.05
    """Before the second look at a busy key or at an inbox that is away; doubled with each further look."""
    longest: float = 2.0
    """Between two such looks at most."""
    after_failure: float = 30.0
    """At most before a message whose handler failed is requeued; half a second after the first failure, then doubled."""
    watch: float = 1.0
    """Between two looks whether the consumer is still known to the broker."""
    grace: float = 10.0
    """For handlers under way to end after `stop`."""


class InboxConsumer:
    """Calls `handler` once in `group` for each message under `alias`: `await InboxConsumer(...).run(queue)`.

    The key is `{bus}:{group}:{alias}:{idKey}`; idKey is the header named `header`, or else the message id.
    `when_unavailable`: `hold` the message until the inbox answers, or `handle` it without protection.
    `on_failure`: `requeue` after a pause, `reject` to the dead-letter exchange, or an async function that is given the message
    and the error and settles the message; one that it leaves unsettled is requeued.
    `without_id`: `handle` a message that has no id, without protection, or `reject` it; both are logged.
    `noticed` is told what became of which message. The handler must not settle the message itself.
    """

    def __init__(
        self,
        inbox: Inbox | InboxStore,
        *,
        bus: str,
        group: str,
        alias: str,
        handler: Handle,
        header: str = "IdempotencyKey",
        lease: float | None = None,
        when_unavailable: Literal["hold", "handle"] = "hold",
        on_failure: Literal["requeue", "reject"] | AfterFailure = "requeue",
        without_id: Literal["handle", "reject"] = "handle",
        pauses: Pauses | None = None,
        noticed: Callable[[What, AbstractIncomingMessage], None] | None = None,
    ) -> None:
        for field, value in (("bus", bus), ("group", group), ("alias", alias), ("header", header)):
            check_name(field, value, most=_LONGEST_NAME)
        self.inbox = inbox if isinstance(inbox, Inbox) else Inbox(inbox)
        self.handler = handler
        self.when_unavailable = when_unavailable
        self.on_failure = on_failure
        self.without_id = without_id
        self.pauses = pauses or Pauses()
        self.claimed: set[str] = set()
        self._parts = (bus, group, alias)
        self._header = header
        self._lease = lease
        self._owner = f"{socket.gethostname()}/{os.getpid()}"[-_LONGEST_NAME:]
        self._noticed = noticed
        self._random = Random()  # noqa: S311 - spreads retries, guards nothing
        self._stopping = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._working: set[asyncio.Task[None]] = set()

    def key_of(self, message: AbstractIncomingMessage) -> str | None:
        """The key of a message, or None when it has neither an idempotency key nor a message id that can be used."""
        for given in (message.headers.get(self._header), message.message_id):
            with suppress(InvalidInput, UnicodeDecodeError):
                # Numbers too: not every publisher puts its keys into text.
                text = str(given) if isinstance(given, int) and not isinstance(given, bool) else given
                if isinstance(text, str | bytes | bytearray) and text:
                    key = inbox_key(*self._parts, text if isinstance(text, str) else text.decode())
                    check_key(key)
                    return key
        return None

    async def run(self, queue: AbstractQueue) -> None:
        """Consume until `stop` or a cancellation, and again whenever the consumer has died with its connection.

        `stop` lets the handlers under way end, for `pauses.grace` seconds; a cancellation ends them at once. What was not
        handled by then stays unacknowledged: close the channel, and the broker delivers it to somebody else.
        """
        self._stopping.clear()
        watching = asyncio.create_task(_watch(queue, self, pause=self.pauses.watch))
        told = asyncio.create_task(self._stopping.wait())
        grace = 0.0
        try:
            await asyncio.wait([watching, told], return_when=asyncio.FIRST_COMPLETED)
            grace = self.pauses.grace
        finally:
            self._stopping.set()
            told.cancel()
            watching.cancel()
            await asyncio.wait([watching])
            await self._let_end(grace)
        if not watching.cancelled() and (error := watching.exception()) is not None:
            raise error

    def stop(self) -> None:
        """Let `run` come to its end: no new message is handled from now on."""
        self._stopping.set()

    async def __call__(self, message: AbstractIncomingMessage) -> None:
        """Take one delivery to its end; for `queue.consume(consumer)`, where nothing watches over the consumer."""
        if self._stopping.is_set():
            return
        # A task of our own: aio-pika cancels its callbacks when the connection drops, and that is no reason to break off the
        # work. The message comes again, finds its key busy and then processed, and is acknowledged there.
        task = asyncio.create_task(Delivery(self, message).run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if not message.channel.is_closed:
                task.cancel()
            raise

    def once(self, key: str) -> Once:
        """One run of the handler under a lease on a key."""
        return self.inbox.once(key, lease=self._lease, owner=self._owner)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """While a handler runs, or what it did is being marked, its task is given the grace period to end."""
        task = asyncio.current_task()
        assert task is not None
        self._working.add(task)
        try:
            yield
        finally:
            self._working.discard(task)

    async def wait(self, seconds: float) -> None:
        """Sleep about as long, so that those who began to wait together do not all come back together."""
        await asyncio.sleep(seconds * self._random.uniform(0.5, 1.0))

    def say(self, what: What, message: AbstractIncomingMessage, level: int, sentence: str) -> None:
        """Tell the log and whoever counts what became of a message."""
        name = self.key_of(message) or f"{':'.join(self._parts)} with delivery tag {message.delivery_tag}"
        _log.log(level, "message %s %s", printable(name), sentence)
        if self._noticed is not None:
            try:
                self._noticed(what, message)
            except Exception as error:
                _log.error("the function that is told of messages failed with %s", type(error).__name__)

    async def _let_end(self, grace: float) -> None:
        for task in self._tasks - self._working:
            task.cancel()
        if self._working and grace:
            await asyncio.wait(set(self._working), timeout=grace)
        if left := set(self._tasks):
            for task in left:
                task.cancel()
            await asyncio.wait(left)


async def _watch(queue: AbstractQueue, consumer: InboxConsumer, *, pause: float) -> None:
    """Consume, and consume again whenever the broker no longer knows the consumer: aio-pika can lose one when it reconnects."""
    channel, tag = await _consume(queue, consumer)
    try:
        while True:
            await asyncio.sleep(pause)
            if tag in getattr(channel, "consumers", ()) and not channel.is_closed:
                continue
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    if isinstance(queue, RobustQueue):
                        await queue.restore()
                    channel, tag = await _consume(queue, consumer)
                _log.info("queue %s is consumed again", printable(queue.name))
            except (*CONNECTION_EXCEPTIONS, TimeoutError) as error:
                _log.warning(
                    "queue %s cannot be consumed: %s; tried again", printable(queue.name), type(error).__name__
                )
    finally:
        with suppress(*CONNECTION_EXCEPTIONS, TimeoutError):
            async with asyncio.timeout(_ANSWER_SECONDS):
                await channel.basic_cancel(tag)


async def _consume(queue: AbstractQueue, consumer: InboxConsumer) -> tuple[AbstractChannel, ConsumerTag]:
    channel = await queue.channel.get_underlay_channel()
    if isinstance(queue, RobustQueue):
        # Two who restore one consumer would consume twice.
        return channel, await queue.consume(consumer, robust=False)
    return channel, await queue.consume(consumer)
