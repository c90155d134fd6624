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
    """What was said since the last reading, where the next one begins, and how far the transcript before was read."""

    said: tuple[Said, ...]
    cursor: Cursor
    left: Cursor | None = None


def grown(sources: Sequence[Source]) -> list[Source]:
    """Those whose transcripts may say something new, by a glance at their sizes; those without one as well."""
    return [source for source in sources if source.path is None or _has_grown(source, source.path)]


def read_over(path: str, cursor: Cursor, *, since: str, left: Cursor | None = None) -> Reading | None:
    """Read on in a transcript, but first to the end of the one before it, which may still be written to."""
    if cursor.source in (None, path):
        rest = None if left is None or left.source == path else read_on(str(left.source), left, since=since, anew=False)
        reading = read_on(path, cursor, since=since)
        if rest is None or reading is None:
            return _alone(reading, left) or (None if rest is None else _late(rest, cursor))
        return _joined(rest, reading)
    rest = read_on(str(cursor.source), cursor, since=since, anew=False)
    if rest is not None and len(rest.said) == _MOST_SAYINGS:
        return _alone(rest, left)
    # Where the agent returns to the transcript that it had left, it is read on, not anew.
    back = left is not None and left.source == path
    begin = replace(left, told_until=_later(left, cursor)) if left is not None and back else cursor
    reading = read_on(path, begin, since=since)
    if reading is None:
        return _alone(rest, left)
    return replace(reading, left=cursor) if rest is None else _joined(rest, reading)


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


def _alone(reading: Reading | None, left: Cursor | None) -> Reading | None:
    return None if reading is None else replace(reading, left=left)


def _late(rest: Reading, cursor: Cursor) -> Reading:
    """Words that were added to the transcript before, when there was nothing new in the one that is read."""
    return Reading(rest.said, replace(cursor, told_until=_later(cursor, rest.cursor)), rest.cursor)


def _joined(rest: Reading, reading: Reading) -> Reading:
    """The rest of one transcript and the beginning of the next, which may repeat it."""
    told = {each for each in rest.said if each.at}
    said = (*rest.said, *(each for each in reading.said if each not in told))
    return Reading(said, replace(reading.cursor, told_until=_later(rest.cursor, reading.cursor)), rest.cursor)


def _later(one: Cursor, other: Cursor) -> str | None:
    return max(one.told_until or "", other.told_until or "") or None


def _has_grown(source: Source, path: str) -> bool:
    read = source.read.position if source.read.source == path else None
    if _size(path) not in (None, read):
        return True
    before = source.left if source.read.source == path and source.looks_back else source.read
    return before is not None and before.source is not None and _size(before.source) not in (None, before.position)


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
