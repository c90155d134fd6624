"""A pipe on one of those tables, as the curves need it: put some in, work as many off."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

AT_ONCE = 200
"""Rows in flight at most, and so in one turn of claim and settle."""


@dataclass(frozen=True, slots=True)
class Live:
    """An open pipe: `put` takes a number for each new row, `step` claims, delivers and settles one turn."""

    put: Callable[[int], Awaitable[object]]
    step: Callable[[], Awaitable[int]]

    async def put_in(self, first: int, count: int) -> None:
        await asyncio.gather(*(self.put(n) for n in range(first, first + count)))

    async def work_off(self, count: int) -> int:
        """Turns until so many are settled; how many that were."""
        done = 0
        while done < count:
            settled = await self.step()
            if not settled:
                raise AssertionError(f"only {done} of {count} could be claimed")
            done += settled
        return done


@dataclass(frozen=True, slots=True)
class Table:
    """How much of each there is."""

    keys: int = 1000
    """Sessions, or tenants."""
    pending: int = 0
    delivered: int = 0
    scheduled: int = 0
    remembered: int = 0
    """Keys of the inbox that were processed."""


class Pipe(Protocol):
    """One of the four."""

    @property
    def name(self) -> str: ...

    @property
    def keys(self) -> str: ...

    def opened(self, url: str, keys: int) -> AbstractAsyncContextManager[Live]: ...

    async def make(self, url: str, table: Table) -> None:
        """Fill an empty database."""
