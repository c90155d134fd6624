"""The target behind a URL."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec

from pillarbox.clock import Clock
from pillarbox.engine import Delivered, Failed, Outcome, Retry, Skipped, not_begun
from pillarbox.inbound.model import InboundMessage
from pillarbox.inbound.targets.envelope import document, identity_headers, signature_headers
from pillarbox.inbound.targets.placement import HttpTarget, is_signing_secret
from pillarbox.posting import Poster, Reply, Unreached, error_kind

_STALE_SECONDS = 5.0
_LARGEST_SECRET = 4096


class HttpDeliverer:
    """Posts messages; whoever calls sets the deadline.

    The status alone decides, but for 409, so a target that answers 2xx has the message even if the rest of its answer
    never comes.
    """

    def __init__(self, *, node: str, clock: Clock) -> None:
        self._node = node
        self._clock = clock
        self._poster = Poster()

    async def deliver(self, spec: HttpTarget, message: InboundMessage) -> Outcome:
        """Post a message once and judge the answer."""
        body = document(message, node=self._node)
        headers = {**spec.headers, **identity_headers(message, node=self._node)}
        if spec.secret is not None:
            with not_begun():
                secret = await _signing_secret(spec.secret)
            if isinstance(secret, Retry):
                return secret
            at = self._clock.shown(self._clock.now())
            headers |= signature_headers(message, body, secret=secret, at=at)
        try:
            async with self._poster.post(spec.url, headers, body) as reply:
                return await _judge(reply)
        except Unreached as trouble:
            return Retry(str(trouble))

    async def close(self) -> None:
        """Close every connection, idle or not."""
        await self._poster.close()


async def _judge(reply: Reply) -> Outcome:
    match reply.status:
        case status if 200 <= status < 300:
            return Delivered()
        case 409 if await _is_stale(reply):
            return Skipped("The target refused the token as stale.")
        case 410:
            return Failed("The target answered 410 Gone.")
        case status:
            return Retry(f"The target answered HTTP {status}.")


async def _is_stale(reply: Reply) -> bool:
    """Whether a 409 says that the token was refused; an answer that cannot be read says nothing."""
    try:
        async with asyncio.timeout(_STALE_SECONDS):
            answer = msgspec.json.decode(await reply.read())
    except Exception:
        return False
    return isinstance(answer, dict) and answer.get("stale") is True


async def _signing_secret(given: str) -> str | Retry:
    """The secret itself, or what it refers to at this moment on this node."""
    kind, _, name = given.partition(":")
    if kind not in ("env", "file"):
        return given
    try:
        secret = os.environ.get(name, "") if kind == "env" else await asyncio.to_thread(_start_of_file, name)
    except (OSError, ValueError) as error:
        return Retry(f"The target's secret {given} cannot be read on this node{error_kind(error)}.")
    if not is_signing_secret(secret):
        return Retry(f"The target's secret {given} is not whsec_ followed by base64 on this node.")
    return secret


def _start_of_file(path: str) -> str:
    with Path(path).open("rb") as file:
        return file.read(_LARGEST_SECRET).decode("ascii").strip()
