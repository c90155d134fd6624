"""Consumers that want to handle each key once: two for every key, some of which die with it in their hands."""

from __future__ import annotations

import asyncio
import time
import uuid
from itertools import count
from random import Random
from typing import Any

from torture.door import Door
from torture.producing.settings import Producers

_PATH = "/v1/inbox"
_DIES, _RELEASES, _EXTENDS = 0.05, 0.1, 0.15


async def keep_contending(producers: Producers, pair: int, which: int) -> None:
    """Handle one key after another, as the other of the pair does too."""
    owner = f"{pair}/{which}"
    chance, door = producers.chance(owner), producers.door(owner)
    for n in count():
        if producers.over():
            return
        key = f"{pair}:{n}"
        while not await _handle(producers, door, key, owner, chance):
            if producers.over():
                return
            await asyncio.sleep(chance.uniform(0.05, 0.3))


async def _handle(producers: Producers, door: Door, key: str, owner: str, chance: Random) -> bool:
    """True once the key is known to be handled, by whomever."""
    asked = time.monotonic()
    status, begun = await door.call("POST", f"{_PATH}/try-begin", {"key": key, "owner": owner})
    if status != 200:
        _note(producers, "try-begin", status, begun)
        return False
    if begun["status"] == "Processed":
        producers.ledger.add(pipe="inbox", kind="seen", key=key)
        return True
    if begun["status"] != "Acquired":
        return False
    lease, drawn = begun["leaseId"], chance.random()
    producers.ledger.add(pipe="inbox", kind="begun", key=key, lease=lease, asked=asked)
    if drawn < _DIES:
        return False
    if drawn < _RELEASES:
        await _change(producers, door, "release", key, lease)
        return False
    if drawn < _EXTENDS:
        await asyncio.sleep(chance.uniform(0.3, 1) * producers.round.inbox_lease)
        if not await _change(producers, door, "extend", key, lease):
            return False
        await asyncio.sleep(chance.uniform(0, 0.9) * producers.round.inbox_lease)
    return await _mark(producers, door, key, lease)


async def _change(producers: Producers, door: Door, what: str, key: str, lease: str) -> bool:
    """Release a lease, or hold it for longer; whether it was still ours."""
    asked = time.monotonic()
    status, answer = await door.insist("POST", f"{_PATH}/{what}", {"key": key, "leaseId": lease})
    if status != 200:
        _note(producers, what, status, answer)
        return False
    done = answer["status"] in ("Released", "Extended")
    if done:
        producers.ledger.add(pipe="inbox", kind=answer["status"].lower(), key=key, lease=lease, asked=asked)
    return done


async def _mark(producers: Producers, door: Door, key: str, lease: str) -> bool:
    result = {"by": uuid.uuid4().hex}
    status, answer = await door.insist(
        "POST", f"{_PATH}/mark-processed", {"key": key, "leaseId": lease, "result": result}
    )
    if status != 200:
        _note(producers, "mark-processed", status, answer)
        return False
    if answer["status"] == "Processed":
        producers.ledger.add(pipe="inbox", kind="processed", key=key, lease=lease)
    return bool(answer["status"] == "Processed")


def _note(producers: Producers, what: str, status: int, answer: Any) -> None:
    if status not in (0, 503):
        producers.unexpected(what, status, answer)
