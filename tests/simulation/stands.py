"""What stands by in a simulated process, for a thread of it to run when it hears of others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pillarbox.storage.standing import Standing

T = TypeVar("T")


class Stands:
    """At most one at a time, run as whoever owns it would."""

    def __init__(self, run: Callable[[Any], Awaitable[Any]]) -> None:
        self._run = run
        self._standing: Standing[Any] | None = None

    def put(self, standing: Standing[T]) -> Standing[T]:
        self._standing = standing
        return standing

    @property
    def waits(self) -> bool:
        return self._standing is not None

    async def serve(self) -> bool:
        """Whether what stands by was run."""
        standing = self._standing
        if standing is None:
            return False
        found = await self._found(standing)
        if self._standing is standing:
            self._standing = None
        if not standing.begin():
            return False
        try:
            result = await self._run(standing.work) if found is None else found
        except Exception as error:
            standing.future.set_exception(error)
        else:
            standing.future.set_result(result)
        return True

    async def _found(self, standing: Standing[T]) -> T | None:
        """What can be had without writing."""
        try:
            return await self._run(standing.look) if standing.look else None
        except Exception:
            return None
