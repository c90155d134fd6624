"""Reading what was added to a transcript, whatever became of the file meanwhile."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import BinaryIO

from pillarbox.conversations.model import Cursor, Source
from pillarbox.conversations.transcript import Said, said_in

_HEAD = 256
_PIECE = 4 * 1024 * 1024
_LARGEST_FILE = 512 * 1024 * 1024
_MOST_SAYINGS = 1000


@dataclass(frozen=True, slots=True)
class Reading:
    """What was said since the last reading, and where the next one begins."""

    said: tuple[Said, ...]
    cursor: Cursor


def grown(sources: Sequence[Source]) -> list[Source]:
    """Those whose transcripts may say something new, by a glance at their sizes; those without one as well."""
    return [source for source in sources if source.path is None or _size(source.path) not in (None, _read(source))]


def read_over(path: str, cursor: Cursor, *, since: str) -> Reading | None:
    """Read on in a transcript, but first to the end of the one before it, if there was one and it is still there."""
    rest = None if cursor.source in (None, path) else read_on(str(cursor.source), cursor, since=since, anew=False)
    if rest is not None and len(rest.said) == _MOST_SAYINGS:
        return rest
    reading = read_on(path, cursor, since=since)
    if rest is None or reading is None:
        return reading or rest
    told = {each for each in rest.said if each.at}
    said = (*rest.said, *(each for each in reading.said if each not in told))
    latest = max(rest.cursor.told_until or "", reading.cursor.told_until or "")
    return Reading(said, replace(reading.cursor, told_until=latest or None))


def read_on(path: str, cursor: Cursor, *, since: str, anew: bool = True) -> Reading | None:
    """Read the whole lines behind the cursor; None where there is no file or nothing new.

    A file that was cut or replaced is read from its beginning, but for what was told before, or said before `since`;
    unless `anew` is false, then it is not read.
    """
    descriptor = _open(path)
    if descriptor is None:
        return None
    with open(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        is_same = cursor.source == path and _begins(descriptor, cursor.head) and size >= cursor.position
        if (is_same and size == cursor.position) or not (is_same or anew):
            return None
        start = cursor.position if is_same else 0
        told = "" if is_same else max(cursor.told_until or "", since)
        said: list[Said] = []
        end = start
        file.seek(start)
        for line, position in _lines(file, start):
            end = position
            found = said_in(line)
            if found is not None and not (told and found.at and found.at <= told):
                said.append(found)
            if len(said) == _MOST_SAYINGS:
                break
        if is_same and end == start:
            return None
        latest = max([cursor.told_until or "", *(each.at for each in said)])
        return Reading(tuple(said), Cursor(path, _head(descriptor), end, latest or None))


def _read(source: Source) -> int | None:
    """Up to where the source's own transcript was read."""
    return source.read.position if source.read.source == source.path else None


def _size(path: str) -> int | None:
    try:
        return os.stat(path).st_size
    except (OSError, ValueError):
        return None


def _open(path: str) -> int | None:
    """A regular file of a sensible size; nothing is waited for, and nothing else is read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    about = os.fstat(descriptor)
    if stat.S_ISREG(about.st_mode) and about.st_size <= _LARGEST_FILE:
        return descriptor
    os.close(descriptor)
    return None


def _lines(file: BinaryIO, start: int) -> Iterator[tuple[bytes, int]]:
    """Each whole line and the position behind it; one that is longer than a piece is passed over."""
    position, left, skipping = start, b"", False
    while piece := file.read(_PIECE):
        *whole, last = (left + piece).split(b"\n")
        for line in whole:
            position += len(line) + 1
            yield (b"" if skipping else line), position
            skipping = False
        if len(last) > _PIECE:
            position, last, skipping = position + len(last), b"", True
        left = last


def _head(descriptor: int) -> str:
    beginning = os.pread(descriptor, _HEAD, 0)
    return f"{len(beginning)}:{sha256(beginning).hexdigest()[:32]}"


def _begins(descriptor: int, head: str | None) -> bool:
    """Whether a file still begins as it did; it may have been shorter then."""
    length = (head or "").partition(":")[0]
    if not length.isdigit():
        return False
    beginning = os.pread(descriptor, int(length), 0)
    return f"{len(beginning)}:{sha256(beginning).hexdigest()[:32]}" == head
