"""One delivering process for each tmux server, by a lock of the operating system on a file beside the server's socket."""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pillarbox.inbound.targets.tmux_server import NoSuchTerminal, TmuxTrouble

_POLL_SECONDS = 0.02
_TURN_SECONDS = 1.0


class Busy(TmuxTrouble):
    """Another process had the lock all the time."""


class ServerLock:
    """Held while any delivery of this process is at the server; after a while the others get their turn.

    The descriptor goes to every tmux client that is started meanwhile, so that the lock outlives a process that is killed until
    its last client has ended.
    """

    def __init__(self, socket: Path) -> None:
        self._path = socket.with_name(f"{socket.name}.pillarbox")
        self._entrance = asyncio.Lock()
        self._empty = asyncio.Event()
        self._descriptor: int | None = None
        self._inside = 0
        self._turn_ends = 0.0

    @asynccontextmanager
    async def held(self, *, at_most: float) -> AsyncIterator[int]:
        """The lock's descriptor, once this process has it; waits `at_most` seconds for that."""
        try:
            async with asyncio.timeout(at_most), self._entrance:
                descriptor = await self._enter()
                self._inside += 1
        except TimeoutError:
            raise Busy("Another process is delivering to this tmux server.") from None
        try:
            yield descriptor
        finally:
            self._inside -= 1
            if not self._inside:
                os.close(descriptor)
                self._descriptor = None
                self._empty.set()

    async def _enter(self) -> int:
        if self._descriptor is not None and time.monotonic() >= self._turn_ends:
            self._empty.clear()
            await self._empty.wait()
            # Longer than the others rest between two looks.
            await asyncio.sleep(2 * _POLL_SECONDS)
        while self._descriptor is None:
            # To the end even when cancelled: a lock that nobody knows of would never be given back.
            trying = asyncio.ensure_future(asyncio.to_thread(_try_lock, self._path))
            try:
                self._descriptor = await asyncio.shield(trying)
            except asyncio.CancelledError:
                trying.add_done_callback(_give_back)
                raise
            self._turn_ends = time.monotonic() + _TURN_SECONDS
            if self._descriptor is None:
                await asyncio.sleep(_POLL_SECONDS)
        return self._descriptor


def _try_lock(path: Path) -> int | None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        raise NoSuchTerminal("no tmux server") from None
    except OSError as error:
        raise TmuxTrouble(f"The lock beside the tmux server's socket cannot be opened ({error.strerror}).") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Somebody may have tidied the file away: then others lock another one.
        if os.path.samestat(os.fstat(descriptor), os.stat(path)):
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def _give_back(trying: asyncio.Future[int | None]) -> None:
    if not trying.cancelled() and trying.exception() is None and (descriptor := trying.result()) is not None:
        os.close(descriptor)
