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

    async def serve(self) -> None:
        standing, self._standing = self._standing, None
        if standing is None or not standing.begin():
            return
        try:
            result = await self._run(standing.work)
        except Exception as error:
            standing.future.set_exception(error)
        else:
            standing.future.set_result(result)
