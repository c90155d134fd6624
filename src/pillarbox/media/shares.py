"""How much of the media folder each chat has, so that nobody fills it for all the others."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

import msgspec

from pillarbox.media.model import Entry

_COUNT_EVERY = 600.0
_COUNT_WHEN_OVER_EVERY = 10.0


class Shares:
    """Counts by what is known of each message's files, and what is added here in between."""

    def __init__(self, entries: Path) -> None:
        self._entries = entries
        self._held: Counter[str] = Counter()
        self._counted_at = float("-inf")

    def has_more_than(self, chat: str, most: int, size: int) -> bool:
        """Whether a chat that has files here would have more than that with this one; its first may be of any size."""
        over = self._is_over(chat, most, size)
        age = time.monotonic() - self._counted_at
        if age > (_COUNT_WHEN_OVER_EVERY if over else _COUNT_EVERY):
            self._counted_at, self._held = time.monotonic(), _counted(self._entries)
            over = self._is_over(chat, most, size)
        return over

    def add(self, chat: str, size: int) -> None:
        self._held[chat] += size

    def count_again(self) -> None:
        """Something was removed, or not written after all."""
        self._counted_at = float("-inf")

    def _is_over(self, chat: str, most: int, size: int) -> bool:
        return self._held[chat] > 0 and self._held[chat] + size > most


def _counted(entries: Path) -> Counter[str]:
    held: Counter[str] = Counter()
    try:
        names = os.listdir(entries)
    except OSError:
        return held
    for name in names:
        try:
            entry = msgspec.json.decode((entries / name).read_bytes(), type=Entry)
        except (OSError, msgspec.MsgspecError):
            continue
        held[entry.chat] += sum(kept.size or 0 for kept in entry.files if kept.path is not None)
    return held
