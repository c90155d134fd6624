"""A tmux server of a test's own, programs in it that tell what they read, and a tmux that fails when it is told to."""

import asyncio
import os
import shlex
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Literal, Self

from pillarbox.inbound.targets.placement import TmuxTarget
from tests.inbound.targets import tmux_recorder

BEGIN, END = tmux_recorder.BEGIN, tmux_recorder.END
PATIENCE = 20.0
Mode = Literal["bracketed", "plain", "cooked"]
TMUX = shutil.which("tmux") or "tmux"


def submitted(text: str) -> bytes:
    """What a program with bracketed paste reads of one message."""
    return BEGIN + text.encode() + END + b"\r"


class Recorder:
    """What one program in a terminal has read, as it tells."""

    def __init__(self, stream: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._stream = stream
        self._writer = writer

    async def read(self, count: int) -> bytes:
        async with asyncio.timeout(PATIENCE):
            return await self._stream.readexactly(count)

    async def submission(self) -> bytes:
        """Up to the first Enter outside a paste."""
        async with asyncio.timeout(PATIENCE):
            return await self._stream.readuntil(END + b"\r")

    async def until(self, sign: bytes) -> bytes:
        async with asyncio.timeout(PATIENCE):
            return await self._stream.readuntil(sign)

    async def close(self) -> None:
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


class Stage:
    """One tmux server in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = str(folder / "tmux.sock")
        self._recorders: list[Recorder] = []

    def tmux(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(
            [TMUX, "-u", "-S", self.socket, "-f", "/dev/null", *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            env={name: value for name, value in os.environ.items() if name not in ("TMUX", "TMUX_PANE")},
        )
        assert not check or done.returncode == 0, done.stderr
        return done.stdout.strip()

    def target(self, name: str, **options: Any) -> TmuxTarget:
        return TmuxTarget(name=name, socket=self.socket, **options)

    def lock_file(self) -> IO[str]:
        """What a process that delivers to this server holds locked."""
        return Path(f"{self.socket}.pillarbox").open("a")

    async def record(self, name: str, mode: Mode = "bracketed", *start: str) -> Recorder:
        """Start a recording program in a new session, or by another tmux command; answers once it reads."""
        address, heard = str(self.folder / f"r{len(self._recorders)}"), asyncio.get_running_loop().create_future()
        server = await asyncio.start_unix_server(lambda *ends: heard.set_result(ends), address, limit=1 << 24)
        program = shlex.join([sys.executable, tmux_recorder.__file__, address, mode])
        self.tmux(*(start or ("new-session", "-d", "-x", "200", "-y", "50", "-s", name)), program)
        async with asyncio.timeout(PATIENCE):
            recorder = Recorder(*await heard)
        server.close()
        self._recorders.append(recorder)
        assert await recorder.until(b"ready\n") == b"ready\n"
        return recorder

    def remains(self, name: str) -> None:
        """Let the panes of a session stay when their programs end."""
        self.tmux("set-option", "-w", "-t", f"={name}:", "remain-on-exit", "on")

    def end_program(self, name: str) -> None:
        """End the program of a session whose panes stay."""
        subprocess.run(["sh", "-c", self.ending(name)], check=True, timeout=PATIENCE)

    def ending(self, name: str) -> str:
        """A script that ends the program of a session, and ends itself once tmux has noticed."""
        pid = self.tmux("display-message", "-p", "-t", f"={name}:", "#{pane_pid}")
        ask = f"{TMUX} -S {shlex.quote(self.socket)} display-message -p -t ={name}: '#{{pane_dead}}'"
        return f'kill -9 {pid}; until test "$({ask})" = 1; do :; done'

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for recorder in self._recorders:
            await recorder.close()
        self.tmux("kill-server", check=False)


class ShamTmux:
    """A tmux first on the PATH that does the real thing, unless a file says that a kind of call fails, hangs or comes late."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "calls"
        self.log.touch()
        script = f"""#!/bin/sh
            case "$*" in *send-keys*) call=enter;; *paste-buffer*) call=paste;; *) call=look;; esac
            echo "$PPID $call" >> {shlex.quote(str(self.log))}
            cd {shlex.quote(str(folder))}
            test -e before-$call && sh ./before-$call
            test -e fail-$call && exit 1
            test -e hang-$call && exec tail -f /dev/null
            if test -e late-$call; then {TMUX} "$@"; exec tail -f /dev/null; fi
            if test -e flood-$call; then exec yes; fi
            exec {TMUX} "$@"
        """
        (folder / "tmux").write_text(script)
        (folder / "tmux").chmod(0o755)

    def will(self, what: str, script: str = "") -> None:
        (self.folder / what).write_text(script)

    def behave(self) -> None:
        for file in self.folder.glob("*-*"):
            file.unlink()

    def calls(self) -> list[tuple[str, str]]:
        return [(who, what) for who, what in (line.split() for line in self.log.read_text().splitlines())]
