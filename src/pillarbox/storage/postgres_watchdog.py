"""Giving up on a server that takes statements and answers nothing, as one that hangs behind a live network does."""

from __future__ import annotations

import math
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

_LONGEST_GLANCE = 1.0


class Watchdog:
    """Cuts a connection when nothing came over it for so many seconds, so that whoever waits for it gets an error."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._deadlines: dict[psycopg.Connection[Any], float] = {}
        self._guard = threading.Lock()
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="pillarbox-watchdog", daemon=True).start()

    @contextmanager
    def watching(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        self.touch(connection)
        try:
            yield
        finally:
            with self._guard:
                del self._deadlines[connection]

    def touch(self, connection: psycopg.Connection[Any]) -> None:
        """Something is asked of the connection now."""
        with self._guard:
            self._deadlines[connection] = time.monotonic() + self._patience

    def spare(self, connection: psycopg.Connection[Any]) -> None:
        """Something is asked of the connection now that may take any time."""
        with self._guard:
            self._deadlines[connection] = math.inf

    def close(self) -> None:
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(min(self._patience / 4, _LONGEST_GLANCE)):
            # Under the lock, so that a connection that has just answered is not cut in the hands of its next user.
            with self._guard:
                now = time.monotonic()
                for connection in [held for held, deadline in self._deadlines.items() if deadline < now]:
                    _cut(connection)


def _cut(connection: psycopg.Connection[Any]) -> None:
    """End the conversation under whoever waits in it; closing the connection here would pull it away from that thread."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)
