"""Noticing that stored text is not what was stored: a disk that flips a bit does so without a word."""

from __future__ import annotations

import codecs
from zlib import crc32

DAMAGED = (
    "What is stored of it was damaged on disk, so it is not delivered; run `pillarbox doctor` and restore a backup."
)


_REPLACED = "\ufffd\U000e0001"
"""What stands where a byte of no text was read: the sign that people know, and a tag that nobody writes any more."""


def checksum(*texts: str | None) -> int:
    """A number that changes when any of the texts does; no text that is stored holds a NUL."""
    if None in texts:
        texts = tuple(text or "" for text in texts)
    return crc32("\0".join(texts).encode())  # type: ignore[arg-type]


def is_intact(stored: int | None, *texts: str | None) -> bool:
    """Whether texts are what they were when their checksum was stored; texts from before there were any pass."""
    try:
        return stored in (None, checksum(*texts))
    except TypeError:
        return False


def as_near_as_can_be(text: bytes) -> str:
    """Bytes that were stored as text, with a mark that `is_legible` knows for each that is of none."""
    return text.decode(errors="pillarbox-replaced")


def is_legible(text: object) -> bool:
    """Whether a text that has no checksum came from the disk as one: whole, and of no other type."""
    return isinstance(text, str) and _REPLACED not in text


codecs.register_error("pillarbox-replaced", lambda error: (_REPLACED, getattr(error, "end", 0)))
