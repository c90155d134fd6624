"""The inbox on Redis or Valkey: one hash for each key, each verb one script, retention by TTL, time by the server's clock.

It is as durable as the server: use `appendonly yes`, and know that a failover may lose what was acknowledged last.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.resources import files
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import NoScriptError, RedisError

from pillarbox.clock import EPOCH
from pillarbox.engine.batch import Batch
from pillarbox.errors import Unavailable
from pillarbox.inbox.model import UNKNOWN, Begun, LeaseAnswer, Sighting, check_retention, result_text, result_value

_MOST_TOGETHER = 256
_AT_ONCE = 4
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def _scripts() -> dict[str, str]:
    parts = _NAME.split(files("pillarbox.inbox").joinpath("redis.lua").read_text(encoding="utf-8"))
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@dataclass(frozen=True, slots=True)
class _Call:
    script: str
    key: str
    arguments: tuple[str | int, ...] = ()


class RedisInbox:
    """An `InboxStore` on a Redis client, which is its owner's to close; keys are kept below `prefix` for `retention`."""

    def __init__(
        self, redis: Redis, *, prefix: str = "pillarbox:inbox:", retention: timedelta = timedelta(days=7)
    ) -> None:
        self._redis = redis
        self._prefix = prefix
        self._retention = int(check_retention(retention).total_seconds() * 1000)
        self._scripts = {name: redis.register_script(text) for name, text in _scripts().items()}
        self._calls: Batch[_Call, list[bytes]] = Batch(self._run, most=_MOST_TOGETHER, at_once=_AT_ONCE)

    async def try_begin(
        self,
        key: str,
        *,
        lease: float,
        owner: str | None = None,
        fingerprint: str | None = None,
        lease_id: str | None = None,
    ) -> Begun:
        name = lease_id or uuid.uuid4().hex
        arguments = (name, _micros(lease), owner or "", _given(fingerprint), self._retention)
        status, *rest = await self._calls.add(_Call("begin", key, arguments))
        match status:
            case b"Acquired":
                return Begun("Acquired", name, _instant(rest[0]))
            case b"Processed":
                return Begun("Processed", result=result_value(rest[0] or None))
            case b"Mismatch":
                return Begun("Mismatch")
            case _:
                return Begun("Busy")

    async def extend(self, key: str, lease_id: str, *, lease: float) -> LeaseAnswer:
        arguments = (lease_id, _micros(lease), self._retention)
        status, *rest = await self._calls.add(_Call("extend", key, arguments))
        return LeaseAnswer("Extended", _instant(rest[0])) if status == b"Extended" else LeaseAnswer("LeaseLost")

    async def mark_processed(self, key: str, lease_id: str, *, result: Any = None) -> LeaseAnswer:
        arguments = (lease_id, result_text(result) or "", self._retention)
        (status,) = await self._calls.add(_Call("mark", key, arguments))
        return LeaseAnswer("Processed" if status == b"Processed" else "LeaseLost")

    async def release(self, key: str, lease_id: str) -> LeaseAnswer:
        (status,) = await self._calls.add(_Call("release", key, (lease_id,)))
        return LeaseAnswer("Released" if status == b"Released" else "LeaseLost")

    async def look(self, key: str) -> Sighting:
        found = await self._calls.add(_Call("look", key))
        if not found:
            return UNKNOWN
        status, attempts, first_seen, last_seen, lease_until = found
        seen = (int(attempts), _instant(first_seen), _instant(last_seen))
        if status == b"leased":
            return Sighting("Leased", *seen, _instant(lease_until))
        return Sighting("Processed" if status == b"processed" else "Free", *seen)

    async def close(self) -> None:
        """The client is its owner's to close."""

    async def _run(self, calls: Sequence[_Call]) -> list[list[bytes] | Exception]:
        """Concurrent callers share one round trip; a call that fails fails alone."""
        try:
            answers = await self._send(calls)
            if any(isinstance(answer, NoScriptError) for answer in answers):
                for script in self._scripts.values():
                    await self._redis.script_load(script.script)
                # Nothing of a script that the server did not know has happened, and repeating any other changes nothing.
                answers = await self._send(calls)
        except (RedisError, OSError, TimeoutError) as error:
            raise Unavailable("Redis cannot be asked; check that the server runs and takes writes.") from error
        return [_judged(answer) for answer in answers]

    async def _send(self, calls: Sequence[_Call]) -> list[Any]:
        async with self._redis.pipeline(transaction=False) as pipeline:
            for call in calls:
                sha = self._scripts[call.script].sha
                pipeline.execute_command("EVALSHA", sha, 1, self._prefix + call.key, *call.arguments)
            answers: list[Any] = await pipeline.execute(raise_on_error=False)
        return answers


def _judged(answer: Any) -> list[bytes] | Exception:
    if isinstance(answer, Exception):
        return Unavailable(f"Redis refused a call of the inbox ({type(answer).__name__}); check the server's log.")
    return [part.encode() if isinstance(part, str) else part for part in answer]


def _given(text: str | None) -> str:
    """An empty text is one too; only none is ''."""
    return "" if text is None else f"={text}"


def _micros(seconds: float) -> int:
    return int(seconds * 1_000_000)


def _instant(micros: bytes) -> datetime:
    return EPOCH + timedelta(microseconds=int(micros))
