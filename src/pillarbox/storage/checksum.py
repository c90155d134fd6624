"""Noticing that stored text is not what was stored: a disk that flips a bit does so without a word."""

from __future__ import annotations

from zlib import crc32

DAMAGED = (
    "What is stored of it was damaged on disk, so it is not delivered; run `pillarbox doctor` and restore a backup."
)


_REPLACED = "\ufffd"
"""What stands where a byte of no text was read."""


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


def is_legible(text: str) -> bool:
    """Whether every byte of a text that has no checksum could be read."""
    return _REPLACED not in text
