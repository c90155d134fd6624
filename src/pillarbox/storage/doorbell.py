"""A bell between the processes on one SQLite file: whoever has brought something rings, and whoever rests is woken at once.

A ring carries nothing and may be lost; it saves those who rest from having to look. It is a datagram to a name that belongs to
the file, in the kernel's own name space, so that nothing is left behind by those who die (Linux). Anybody on the machine could
ring, and all that comes of it is a look.
"""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress
from time import monotonic

# As many processes can be rung for; any more look for themselves.
_PLACES = 8
_PROBE_SECONDS = 1.0
_MOST_RINGS = 16
_RING = b"!"


class Doorbell:
    """Rings, from one thread, and hears, on another."""

    def __init__(self, path: str) -> None:
        file = os.stat(path)
        self._names = [f"\0pillarbox-{file.st_dev:x}-{file.st_ino:x}-{place}" for place in range(_PLACES)]
        self._answering: list[str] = []
        self._probed = -_PROBE_SECONDS
        self._ringing = _datagrams()
        self._hearing: socket.socket | None = None
        self._own = ""

    @classmethod
    def of(cls, path: str) -> Doorbell | None:
        """None where there is no such thing."""
        if not sys.platform.startswith("linux"):
            return None
        try:
            return cls(path)
        except OSError:
            return None

    def ring(self) -> None:
        """Wake whoever hears: those who did last time, and now and then everybody."""
        now = monotonic()
        if now - self._probed >= _PROBE_SECONDS:
            self._probed, self._answering = now, [name for name in self._names if name != self._own]
        for name in tuple(self._answering):
            try:
                self._ringing.sendto(_RING, name)
            except BlockingIOError:
                """It has rings that it did not hear yet."""
            except OSError:
                self._answering.remove(name)

    def hear(self) -> int | None:
        """A descriptor that becomes readable when somebody rings; None where every place is taken, or descriptors are."""
        if self._hearing is None:
            with suppress(OSError):
                self._take_place(_datagrams())
        return None if self._hearing is None else self._hearing.fileno()

    def silence(self) -> None:
        """Take note of the rings so far; of very many, so many that nobody can keep us at it."""
        if self._hearing is not None:
            with suppress(OSError):
                for _ in range(_MOST_RINGS):
                    self._hearing.recv(1)

    def close(self) -> None:
        self._ringing.close()
        if self._hearing is not None:
            self._hearing.close()

    def _take_place(self, hearing: socket.socket) -> None:
        for name in self._names:
            with suppress(OSError):
                hearing.bind(name)
                self._hearing, self._own = hearing, name
                return
        hearing.close()


def _datagrams() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
