"""How much the media folder may hold, whichever processes write to it."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from pillarbox.media.model import Full
from pillarbox.media.shares import Shares

ENTRIES = "by-message"
_COUNT_EVERY = 600.0
_COUNT_WHEN_FULL_EVERY = 10.0


class Room:
    """Counts what lies in the folder, and what is added here in between; others' files are seen with the next count.

    Once the folder is half full no chat may have more than a quarter of it.
    """

    def __init__(self, root: Path, most: int) -> None:
        self._root = root
        self._most = most
        self._shares = Shares(root / ENTRIES)
        self._held = 0
        self._counted_at: float | None = None
        self._lock = threading.Lock()

    def take(self, size: int, chat: str = "") -> None:
        """Take so much of it for a chat, or raise `Full`."""
        with self._lock:
            self._require(size, chat)
            self._held += size
            self._shares.add(chat, size)

    def require(self, size: int, chat: str = "") -> None:
        """Raise `Full` where so much would not fit."""
        with self._lock:
            self._require(size, chat)

    def count_again(self) -> None:
        """Something was removed, or not written after all."""
        self._counted_at = None
        self._shares.count_again()

    def _require(self, size: int, chat: str) -> None:
        age = None if self._counted_at is None else time.monotonic() - self._counted_at
        full = self._held + size > self._most
        if age is None or age > (_COUNT_WHEN_FULL_EVERY if full else _COUNT_EVERY):
            self._counted_at, self._held = time.monotonic(), _size(self._root)
        half_full = self._held + size > self._most // 2
        if self._held + size > self._most:
            most = f"{self._most / 1_000_000:,.0f} MB"
            raise Full(
                f"The media folder is full: media.max_total_bytes is {most}. Raise it, or wait for old files to go."
            )
        if chat and half_full and self._shares.has_more_than(chat, self._most // 4, size):
            raise Full(
                "The media folder has no more room for this chat, which has a quarter of media.max_total_bytes already."
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
