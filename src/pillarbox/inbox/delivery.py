"""One delivery of a message, on its way through the inbox.

    delivered ── begin ── Processed ──────────────────────────────────────────────────── ack
                   │
                   ├───── Busy, or the inbox is away ── hold the message, look again
                   │
                   └───── Acquired ── handle ── done ── mark ── Processed ────────────── ack
                                        │                └───── away ── mark again, never handle again
                                        ├────── raised ── release ── requeue after a pause, reject, or as you say
                                        └────── lease lost ── cancelled ──────────────── requeue

A message that has to wait is held and not sent back: the broker would deliver it again at once, and a quorum queue counts each
return and in the end gives up on the message. It takes one place of the prefetch count, so choose that higher than 1.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from aio_pika.abc import AbstractIncomingMessage
from aio_pika.exceptions import CONNECTION_EXCEPTIONS

from pillarbox.errors import LeaseLost, Unavailable
from pillarbox.inbox.model import BeginStatus

if TYPE_CHECKING:
    from pillarbox.inbox.consumer import InboxConsumer

_log = logging.getLogger(__name__)

What = Literal[
    "handled", "skipped", "busy", "unavailable", "failed", "lost", "overtaken", "unmarked", "without id", "unprotected"
]
"""What may become of a message.

`handled`: by this consumer, and marked. `skipped`: it was handled before. `busy` and `unavailable`: it is held, because
somebody else handles it, or because the inbox cannot be asked. `failed`: the handler raised. `lost`: the lease went to somebody
else, so the handler was cancelled. `overtaken`: the same after the handler was done and before that was marked; another may
handle it too. `unmarked`: this process ended between handler and mark, or while marking. `without id`: it has none.
`unprotected`: handled without the inbox.
"""
Handle = Callable[[AbstractIncomingMessage], Awaitable[Any]]
AfterFailure = Callable[[AbstractIncomingMessage, BaseException], Awaitable[None]]

_FIRST_PAUSE_AFTER_FAILURE = 0.5


class _Failed(Exception):
    """The handler raised its cause."""


class Delivery:
    """One message as it was delivered once, on its way through the inbox."""

    def __init__(self, consumer: InboxConsumer, message: AbstractIncomingMessage) -> None:
        self._consumer = consumer
        self._message = message
        self._say = partial(consumer.say, message=message)
        self._handled = False

    async def run(self) -> None:
        """Take the message to where it is settled, or was delivered anew on another channel."""
        key = self._consumer.key_of(self._message)
        if key is None:
            return await self._without_id()
        try:
            await self._run_once(key)
        finally:
            if self._handled:
                self._consumer.claimed.discard(key)

    async def _run_once(self, key: str) -> None:
        before, pause = "", self._consumer.pauses.first
        # What will be delivered on another channel need not wait here too; but work that was done has to be marked all the same.
        while self._handled or not self._message.channel.is_closed:
            what = await self._try(key)
            if what is None:
                return
            if what != before:
                why = "someone is handling it" if what == "busy" else "the inbox cannot be asked"
                level = logging.DEBUG if what == "busy" else logging.WARNING
                self._say(what, level=level, sentence=f"is held and tried again: {why}")
            before = what
            await self._consumer.wait(pause)
            pause = min(pause * 2, self._consumer.pauses.longest)

    async def _try(self, key: str) -> Literal["busy", "unavailable"] | None:
        """What the message has to wait for, or None when it is settled."""
        if not self._handled and key in self._consumer.claimed:
            return "busy"
        try:
            status = await self._handle_once(key)
        except _Failed as failed:
            await self._fail(failed.__cause__ or failed, key)
            return None
        except LeaseLost:
            return await self._lose()
        except asyncio.CancelledError:
            if self._handled:
                self._say(
                    "unmarked",
                    level=logging.ERROR,
                    sentence="was handled and may not have been marked; then it will be handled again",
                )
            raise
        except Exception as error:
            # Whatever keeps the inbox from answering: a message is not handled, nor dropped, on a guess.
            return await self._do_without(error)
        if status in ("Busy", "Mismatch"):
            return "busy"
        self._say(
            "handled" if self._handled else "skipped", level=logging.DEBUG, sentence="is processed and acknowledged"
        )
        await self._settle(self._message.ack)
        return None

    async def _handle_once(self, key: str) -> BeginStatus:
        once = self._consumer.once(key)
        async with once as first:
            if first:
                with self._consumer.at_work():
                    if not self._handled:
                        await self._claim_and_handle(key)
                    # The work is done: whatever it takes, it is the mark that is tried again.
                    await once.mark(patience=math.inf)
        return first.status

    async def _claim_and_handle(self, key: str) -> None:
        """What this process has done it does not do again, though the lease be over before the inbox could be told."""
        self._consumer.claimed.add(key)
        try:
            await self._handle()
            self._handled = True
        finally:
            if not self._handled:
                self._consumer.claimed.discard(key)

    async def _handle(self) -> None:
        try:
            await self._consumer.handler(self._message)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Nobody cancelled this task: something inside the handler was cancelled, which is the handler's failure.
            raise _Failed from error
        except Exception as error:
            raise _Failed from error

    async def _lose(self) -> Literal["busy"] | None:
        if self._handled:
            self._say(
                "overtaken", level=logging.ERROR, sentence="was handled, but its lease lost before that was marked"
            )
            return "busy"
        self._say(
            "lost", level=logging.WARNING, sentence="lost its lease; its handler was cancelled, and it is requeued"
        )
        await self._settle(partial(self._message.nack, requeue=True))
        return None

    async def _do_without(self, error: Exception) -> Literal["unavailable"] | None:
        if not isinstance(error, Unavailable):
            _log.error("the inbox failed with %s", type(error).__name__)
        if self._handled or self._consumer.when_unavailable == "hold":
            return "unavailable"
        self._say(
            "unavailable", level=logging.WARNING, sentence="is handled without protection: the inbox cannot be asked"
        )
        await self._handle_unprotected()
        return None

    async def _without_id(self) -> None:
        choice = self._consumer.without_id
        how = "handled without protection" if choice == "handle" else "rejected"
        self._say(
            "without id", level=logging.WARNING, sentence=f"has neither an idempotency key nor an id; it is {how}"
        )
        if choice == "handle":
            return await self._handle_unprotected()
        await self._settle(partial(self._message.reject, requeue=False))

    async def _handle_unprotected(self) -> None:
        try:
            with self._consumer.at_work():
                await self._handle()
        except _Failed as failed:
            return await self._fail(failed.__cause__ or failed, None)
        self._say("unprotected", level=logging.DEBUG, sentence="was handled without protection and is acknowledged")
        await self._settle(self._message.ack)

    async def _fail(self, error: BaseException, key: str | None) -> None:
        policy = self._consumer.on_failure
        then = f"{policy}ed" if isinstance(policy, str) else "settled by your function"
        kind = type(error).__name__
        self._say("failed", level=logging.WARNING, sentence=f"failed in its handler with {kind} and is to be {then}")
        if policy == "reject":
            return await self._settle(partial(self._message.reject, requeue=False))
        if callable(policy):
            try:
                await policy(self._message, error)
            except Exception as trouble:
                _log.error("the function for failed messages failed with %s; requeued", type(trouble).__name__)
        if not self._message.processed:
            await self._consumer.wait(await self._pause_after_failure(key))
            await self._settle(partial(self._message.nack, requeue=True))

    async def _pause_after_failure(self, key: str | None) -> float:
        """The inbox counts the attempts; the broker, on a classic queue, does not."""
        longest, attempts = self._consumer.pauses.after_failure, 1
        if key is not None:
            try:
                attempts = (await self._consumer.inbox.look(key)).attempts
            except Exception:
                return longest
        return min(longest, _FIRST_PAUSE_AFTER_FAILURE * 2.0 ** min(max(attempts - 1, 0), 60))

    async def _settle(self, settle: Callable[[], Awaitable[None]]) -> None:
        """Tell the broker; where it cannot be told, it delivers the message again, and the key decides."""
        if self._message.processed:
            return
        try:
            await settle()
        except CONNECTION_EXCEPTIONS:
            _log.info("the broker was not told what became of a message; it will deliver it again")
