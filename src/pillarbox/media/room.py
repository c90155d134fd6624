"""How much the media folder may hold, whichever processes write to it."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from pillarbox.media.model import NotNow

_COUNT_EVERY = 600.0
_COUNT_WHEN_FULL_EVERY = 10.0


class Room:
    """Counts what lies in the folder, and what is added here in between; others' files are seen with the next count."""

    def __init__(self, root: Path, most: int) -> None:
        self._root = root
        self._most = most
        self._held = 0
        self._counted_at: float | None = None
        self._lock = threading.Lock()

    def take(self, size: int) -> None:
        """Take so much of it, or raise `NotNow`."""
        with self._lock:
            self._require(size)
            self._held += size

    def require(self, size: int) -> None:
        """Raise `NotNow` where so much would not fit."""
        with self._lock:
            self._require(size)

    def count_again(self) -> None:
        """Something was removed, or not written after all."""
        self._counted_at = None

    def _require(self, size: int) -> None:
        age = None if self._counted_at is None else time.monotonic() - self._counted_at
        full = self._held + size > self._most
        if age is None or age > (_COUNT_WHEN_FULL_EVERY if full else _COUNT_EVERY):
            self._counted_at, self._held = time.monotonic(), _size(self._root)
        if self._held + size > self._most:
            most = f"{self._most / 1_000_000:,.0f} MB"
            raise NotNow(
                f"The media folder is full: media.max_total_bytes is {most}. Raise it, or wait for old files to go."
            )


def _size(root: Path) -> int:
    total = 0
    for folder, _, names in os.walk(root):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue
    return total
