"""Whether a database file is still where it was opened: what is written to a deleted one is gone when the process ends."""

from __future__ import annotations

import os

from pillarbox.errors import Unavailable


class Whereabouts:
    """Remembers which file was opened under a path."""

    def __init__(self, path: str) -> None:
        self._path = os.path.abspath(path)
        self._file = os.stat(self._path)

    def require(self) -> None:
        """Raise `Unavailable` where the path leads to another file by now, or to none."""
        try:
            same = os.path.samestat(os.stat(self._path), self._file)
        except OSError:
            same = False
        if not same:
            raise Unavailable(
                f"{self._path} was moved or deleted while in use; put it back, or restart to begin a new one."
            )
