"""Calls to a tmux server: each bounded in time and in what it may print, none of them on the event loop."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pillarbox.text import printable

_MOST_OUTPUT = 1024 * 1024
_PIECE = 65_536
_REAP_SECONDS = 2.0
_GLANCE_MILLISECONDS = 50
# All that tmux needs; what this process was trusted with is none of its business, nor is a terminal we may run in ourselves.
_PASSED_ON = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "PATH", "TMPDIR", "TMUX_TMPDIR")


class TmuxTrouble(Exception):
    """A call to tmux failed; its text is fit to be shown."""


class NoSuchTerminal(TmuxTrouble):
    """There is no such server or session."""


@dataclass(frozen=True, slots=True)
class TmuxServer:
    """One tmux server by its socket: a path, or a name as `tmux -L` takes it."""

    socket: str

    @property
    def path(self) -> Path:
        """Where the socket is."""
        if self.socket.startswith("/"):
            return Path(self.socket)
        folders = (os.environ.get("TMUX_TMPDIR") or "/tmp", "/tmp")  # noqa: S108 - where tmux itself puts it
        root = next((folder for folder in folders if os.path.isdir(folder)), "/tmp")  # noqa: S108
        return Path(root).resolve() / f"tmux-{os.getuid()}" / self.socket

    async def call(self, *arguments: str, seconds: float, held: int | None = None, stdin: bytes | None = None) -> str:
        """What tmux prints; `held`, if given, is kept open for as long as it runs."""
        argv = ["tmux", "-u", "-S" if self.socket.startswith("/") else "-L", self.socket, *arguments]
        call = _Call(argv, stdin, held)
        try:
            async with asyncio.timeout(seconds):
                code, printed = await asyncio.shield(call.ended)
        except TimeoutError:
            await call.kill()
            raise TmuxTrouble(f"tmux did not answer within {seconds:g} s.") from None
        except asyncio.CancelledError:
            await call.kill()
            raise
        except FileNotFoundError:
            raise TmuxTrouble("tmux is not installed on this node, or not on its PATH.") from None
        except OSError as error:
            raise TmuxTrouble(f"tmux could not be started ({type(error).__name__}).") from error
        return _judge(code, printed)


def _judge(code: int, printed: bytes) -> str:
    text = printed.decode(errors="replace")
    if code == 0:
        return text
    said = printable(text.strip() or f"exit code {code}")
    if any(sign in text for sign in ("no server running", "error connecting", "can't find", "no current target")):
        raise NoSuchTerminal(said)
    raise TmuxTrouble(f"tmux failed: {said}")


class _Call:
    """A tmux client in a process group of its own, started and waited for by a thread of its own."""

    def __init__(self, argv: Sequence[str], stdin: bytes | None, held: int | None) -> None:
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[tuple[int, bytes]] = self._loop.create_future()
        self._state = threading.Lock()
        self._group = 0
        self._unwanted = False
        threading.Thread(target=self._run, args=(argv, stdin, held), name="pillarbox-tmux", daemon=True).start()

    async def kill(self) -> None:
        """End it, and see it end, however often the caller is cancelled meanwhile."""
        with self._state:
            self._unwanted = True
            self._kill_group()
        waiting = asyncio.ensure_future(asyncio.wait([self.ended], timeout=_REAP_SECONDS))
        while not waiting.done():
            with suppress(asyncio.CancelledError):
                await asyncio.shield(waiting)
        if self.ended.done():
            self.ended.exception()

    def _run(self, argv: Sequence[str], stdin: bytes | None, held: int | None) -> None:
        try:
            result = self._result(argv, stdin, held)
        except BaseException as error:
            self._tell(self.ended.set_exception, error)
        else:
            self._tell(self.ended.set_result, result)

    def _result(self, argv: Sequence[str], stdin: bytes | None, held: int | None) -> tuple[int, bytes]:
        # A file that is complete before tmux sees it: a pipe would end early if this process died while it wrote.
        with tempfile.TemporaryFile() as given:
            given.write(stdin or b"")
            given.seek(0)
            child = subprocess.Popen(  # noqa: S603 - never a shell
                argv,
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
                start_new_session=True,
                pass_fds=() if held is None else (held,),
            )
        assert child.stdout is not None
        with self._state:
            self._group = child.pid
            if self._unwanted:
                self._kill_group()
        with child.stdout:
            printed = self._printed(child.stdout.fileno())
        with self._state:
            if len(printed) >= _MOST_OUTPUT:
                self._kill_group()
        code = child.wait()
        with self._state:
            self._group = 0
        return code, printed

    def _printed(self, output: int) -> bytes:
        """All that is printed, until nobody wants it: a server that hangs may hold the output of a client that was killed."""
        printed, waiting = bytearray(), select.poll()
        waiting.register(output, select.POLLIN)
        while len(printed) < _MOST_OUTPUT and not self._unwanted:
            if waiting.poll(_GLANCE_MILLISECONDS):
                piece = os.read(output, _PIECE)
                if not piece:
                    break
                printed += piece
        return bytes(printed)

    def _kill_group(self) -> None:
        if self._group:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._group, signal.SIGKILL)

    def _tell(self, tell: Callable[[Any], None], value: object) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(tell, value)
