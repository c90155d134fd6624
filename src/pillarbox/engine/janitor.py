"""Bounded, idempotent chores on a jittered timer, on every node; nobody leads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import Random

from pillarbox.telemetry import brief, logger

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Chore:
    """One thing to do now and then; `work` answers whether there is more of it to do at once."""

    name: str
    every: float
    work: Callable[[], Awaitable[bool]]


class Janitor:
    """Does each chore about every so many seconds; a chore that fails is tried again at its next time."""

    def __init__(self, chores: Sequence[Chore], *, random: Random) -> None:
        self._chores = chores
        self._random = random

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for chore in self._chores:
                group.create_task(self._repeat(chore))

    async def _repeat(self, chore: Chore) -> None:
        while True:
            await asyncio.sleep(chore.every * self._random.uniform(0.8, 1.2))
            try:
                while await chore.work():  # noqa: ASYNC110 - lets others in between two pieces of it
                    await asyncio.sleep(0)
            except Exception as error:
                log.warning("a chore failed and will be tried again", chore=chore.name, error=brief(error))
