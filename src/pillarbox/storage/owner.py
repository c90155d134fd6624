"""The process that something belongs to."""

from __future__ import annotations

import os

from pillarbox.errors import PillarboxError


class Owner:
    """The process that made this: a forked child has none of the threads that would answer it."""

    def __init__(self) -> None:
        self._process = os.getpid()

    @property
    def is_here(self) -> bool:
        return os.getpid() == self._process

    def require(self) -> None:
        """Refuse a forked child, which would wait for ever."""
        if not self.is_here:
            raise PillarboxError(
                f"This box was opened by process {self._process}, and a forked child cannot use it; "
                "open one after the fork, or ask Pillarbox.shared of pillarbox.sync for one each time."
            )
