"""Hearing that another process has brought something, on the event loop of whoever rests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import apsw

from pillarbox.errors import Unavailable
from pillarbox.storage.doorbell import Doorbell
from pillarbox.storage.driver import drive
from pillarbox.storage.sqlite_connection import connect, execute
from pillarbox.storage.standing import Stand, Standing


class Ear:
    """Looks at once for what was brought, where something stands by that can; otherwise the thread that writes is told.

    The look is on the loop itself, which saves waking a thread and being woken by it: one statement on an index, which waits for
    nobody.
    """

    def __init__(self, path: str, doorbell: Doorbell, stand: Stand, look_out: Callable[[], None]) -> None:
        self._path = path
        self._doorbell = doorbell
        self._stand = stand
        self._look_out = look_out
        self._loop: asyncio.AbstractEventLoop | None = None
        self._heard: int | None = None
        self._connection: apsw.Connection | None = None

    def listen(self) -> None:
        """Hear from now on, on the loop that runs."""
        loop = asyncio.get_running_loop()
        if loop is self._loop:
            return
        self._stop()
        self._loop, self._heard = loop, self._doorbell.hear()
        if self._heard is not None:
            # Some loops have no way to wait for a socket.
            with suppress(NotImplementedError, OSError):
                loop.add_reader(self._heard, self._rung)
            with suppress(apsw.Error, Unavailable):
                self._reader()

    def close(self) -> None:
        self._stop()
        self._doorbell.close()
        if self._connection is not None:
            self._connection.close()

    def _stop(self) -> None:
        if self._loop is not None and not self._loop.is_closed() and self._heard is not None:
            with suppress(NotImplementedError, OSError):
                self._loop.remove_reader(self._heard)

    def _rung(self) -> None:
        self._doorbell.silence()
        found = [self._found(standing) for standing in self._stand.looking() if standing.loop is self._loop]
        if True not in found:
            self._look_out()

    def _found(self, standing: Standing[object]) -> bool:
        """Whether what was brought is for this one; then it has it."""
        if standing.look is None:
            return False
        try:
            found = drive(standing.look, partial(execute, self._reader()))
        except (apsw.Error, Unavailable):
            return False
        if found is None or not standing.begin():
            return False
        standing.future.set_result(found)
        return True

    def _reader(self) -> apsw.Connection:
        if self._connection is None:
            self._connection = connect(self._path, busy_timeout=0)
            self._connection.pragma("query_only", 1)
        return self._connection
