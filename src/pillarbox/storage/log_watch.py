"""Hearing that somebody writes to an SQLite file's write-ahead log, where the system can tell (inotify)."""

from __future__ import annotations

import ctypes
import os
import select
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

_IN_MODIFY = 0x2
_EVENT = struct.Struct("iIII")
_MOST_BYTES = 64 * 1024
_QUIET_SECONDS = 0.005
# About as long as a commit takes to come to the disk: whoever looks sooner finds nothing, and holds it up.
_COMMIT_SECONDS = 0.001


class LogWatch:
    """Calls back soon after the log was written to, at most once in some milliseconds; says nothing where it cannot hear."""

    def __init__(self, path: str, written: Callable[[], None]) -> None:
        self._name = f"{Path(path).name}-wal".encode()
        self._written = written
        self._closed = threading.Event()
        self._heard = _listen(Path(path).resolve().parent)
        # Closing one end wakes the thread that waits for the other.
        self._wakes, self._waker = os.pipe()
        if self._heard is not None:
            threading.Thread(target=self._run, name="pillarbox-hear", daemon=True).start()

    def close(self) -> None:
        if not self._closed.is_set():
            self._closed.set()
            os.close(self._waker)
            if self._heard is None:
                os.close(self._wakes)

    def _run(self) -> None:
        assert self._heard is not None
        waiting = select.poll()
        waiting.register(self._heard, select.POLLIN)
        waiting.register(self._wakes, select.POLLIN)
        while not self._closed.is_set():
            waiting.poll()
            if not self._closed.is_set() and self._name in _names(os.read(self._heard, _MOST_BYTES)):
                self._closed.wait(_COMMIT_SECONDS)
                self._written()
                self._closed.wait(_QUIET_SECONDS)
        os.close(self._heard)
        os.close(self._wakes)


def _names(events: bytes) -> Iterator[bytes]:
    """The files that a buffer of events speaks of."""
    at = 0
    while at < len(events):
        length = _EVENT.unpack_from(events, at)[3]
        at += _EVENT.size
        yield events[at : at + length].rstrip(b"\0")
        at += length


def _listen(folder: Path) -> int | None:
    """A descriptor that tells of every write to a file in the folder; None where there is no such thing, or no more of them."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        heard = int(libc.inotify_init1(os.O_CLOEXEC))
        if heard < 0:
            return None
        if libc.inotify_add_watch(heard, os.fsencode(folder), _IN_MODIFY) < 0:
            os.close(heard)
            return None
    except (OSError, AttributeError):
        return None
    return heard
