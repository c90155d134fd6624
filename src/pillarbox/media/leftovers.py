"""What a crash leaves in the media folder: contents that no message is known to need, and pieces of files."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pillarbox.media.store import MediaStore

_PIECE = re.compile(r"\..+\.\d+\.[0-9a-f]{8}")


class Mark(NamedTuple):
    """A content that was put there for a message, which says nothing of it."""

    digest: str
    message_id: int


class Leftovers:
    """Looks through the folder, a part of it at a time; every call blocks, and nothing younger than `before` is touched."""

    def __init__(self, store: MediaStore) -> None:
        self._store = store
        self._root = store.root

    def parts(self) -> list[str]:
        """The parts to look through, one after another."""
        try:
            return sorted(entry.name for entry in os.scandir(self._root) if entry.is_dir(follow_symlinks=False))
        except OSError:
            return []

    def look(self, part: str, before: float) -> list[Mark]:
        """Remove what is nobody's in this part; answers the marks of messages that do not tell of their content."""
        if part.startswith(".gone-"):
            if _changed_at(self._root / part) < before:
                shutil.rmtree(self._root / part, ignore_errors=True)
            return []
        if part == self._store.entries.name:
            _remove_pieces(self._root / part, before)
            return []
        return [mark for folder in _folders(self._root / part) for mark in self._of_content(folder, before)]

    def remove(self, marks: Sequence[Mark]) -> None:
        """Let go of contents whose messages are over."""
        for mark in marks:
            self._store.let_go(mark.digest, mark.message_id)

    def _of_content(self, folder: Path, before: float) -> Iterator[Mark]:
        _remove_pieces(folder, before)
        names = _names(folder / ".for")
        if not names and _changed_at(folder) < before:
            self._store.let_go(folder.name, 0)
        for name in names:
            old = _changed_at(folder / ".for" / name) < before
            if old and name.isdigit() and not self._store.tells_of(int(name), folder.name):
                yield Mark(folder.name, int(name))


def _remove_pieces(folder: Path, before: float) -> None:
    """Files that were being written when their process died."""
    for name in _names(folder):
        if _PIECE.fullmatch(name) and _changed_at(folder / name) < before:
            with suppress(OSError):
                (folder / name).unlink()


def _folders(part: Path) -> list[Path]:
    return [part / name for name in _names(part) if re.fullmatch(r"[0-9a-f]{64}", name)]


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _changed_at(path: Path) -> float:
    """When it was last written; what is gone was written just now."""
    try:
        return path.lstat().st_mtime
    except OSError:
        return float("inf")
