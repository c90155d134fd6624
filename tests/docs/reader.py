"""Does what a page tells its reader to do, block by block, in a folder and on ports of its own."""

import json
import os
import signal
import subprocess
import sys
import threading
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from pillarbox.settings import load_settings
from tests.docs.pages import Block
from tests.servers.postgres import free_port

PATIENCE = 60.0
_GLANCE = 0.02
_BEFORE = 'if [ -f "$HOME/.state" ]; then . "$HOME/.state"; fi\nset -aeu -o pipefail\n'
_AFTER = '\n{ export -p; declare -f; } > "$HOME/.state"\n'


class Terminal:
    """A command that goes on running, and what it has printed so far."""

    def __init__(self, command: str, *, folder: Path, environment: Mapping[str, str]) -> None:
        self._printed = ""
        self._ended = False
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            ["bash", "-c", f"{_BEFORE}exec {command}"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def printed(self) -> str:
        return self._printed

    def wait_for(self, text: str) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: text in self._printed or self._ended, PATIENCE)
        return text in self._printed

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(PATIENCE)
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            self._reading.join(PATIENCE)
            assert self._process.stdout is not None
            self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self._printed += line
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


class Reader:
    """Somebody who follows a page with a shell, an editor and a few terminals."""

    def __init__(self, folder: Path, *, instead: Mapping[str, str]) -> None:
        self._folder = folder
        self._terminals: dict[str, Terminal] = {}
        self._printed = ""
        port, dev_port = str(free_port()), str(free_port())
        # `make run` sets up first, which was done here before.
        self._instead = {
            "make run": f"pillarbox dev --port {dev_port}",
            "8025": port,
            "9000": str(free_port()),
            **instead,
        }
        self._environment = _environment(folder, port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for terminal in self._terminals.values():
            terminal.end()

    def follow(self, block: Block) -> None:
        """Do what a block says, or compare with it what was done before."""
        text = self._ours(block.text)
        match block.kind, block.verb:
            case _, "not run":
                assert block.detail, f"{block.place}: say why it is not run"
            case "python", "file":
                (self._folder / block.detail).write_text(text)
            case "python", "":
                self._run(block, [sys.executable, "-c", text])
            case "sh", "terminal":
                self._open_terminal(block, text.strip())
            case "sh", "on a database that is there":
                self._run(block, ["bash", "-c", f"{_BEFORE}pillarbox migrate"])
                self._run(block, ["bash", "-c", _BEFORE + text + _AFTER])
            case "sh", "":
                self._run(block, ["bash", "-c", _BEFORE + text + _AFTER])
            case "text", "printed":
                assert self._printed.rstrip() == text.rstrip(), block.place
            case "text", "appears in":
                self._find(block, text)
            case "json", "":
                json.loads(text)
            case "toml", "":
                load_settings(environ={}, **tomllib.loads(text))
            case "text", "":
                pass
            case _:
                raise AssertionError(f"{block.place}: nobody knows what to do with {block.kind} {block.verb}")

    def _ours(self, text: str) -> str:
        for theirs, ours in self._instead.items():
            text = text.replace(theirs, ours)
        for terminal in reversed(self._terminals.values()):
            text = text.replace("kill -9 PID", f"kill -9 {terminal.pid}")
        return text

    def _run(self, block: Block, command: list[str]) -> None:
        done = subprocess.run(
            command,
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, f"{block.place}:\n{block.text}\n{done.stdout}{done.stderr}"
        self._printed = done.stdout

    def _open_terminal(self, block: Block, command: str) -> None:
        name = " ".join(command.split()[:2])
        if name in self._terminals:
            self._terminals[name].end()
        terminal = Terminal(command, folder=self._folder, environment=self._environment)
        self._terminals[name] = terminal
        assert terminal.wait_for(block.detail), f"{block.place}: {terminal.printed}"

    def _find(self, block: Block, text: str) -> None:
        name = " ".join(self._ours(block.detail).split()[:2])
        if name in self._terminals:
            terminal = self._terminals[name]
            assert terminal.wait_for(text), f"{block.place}: {terminal.printed}"
            return
        file, waiting = self._folder / block.detail, threading.Event()
        for _ in range(int(PATIENCE / _GLANCE)):
            if file.exists() and text in file.read_text():
                return
            waiting.wait(_GLANCE)
        raise AssertionError(f"{block.place}: not in {block.detail}")


def _environment(folder: Path, port: str) -> dict[str, str]:
    """This process's, without Pillarbox's variables, with its programs first, and a curl that fails when it is refused."""
    home = folder / "home"
    home.mkdir()
    (home / ".curlrc").write_text("fail-with-body\nshow-error\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PILLARBOX_")}
    path = f"{Path(sys.executable).parent}:{kept['PATH']}"
    return kept | {"HOME": str(home), "PATH": path, "PILLARBOX_HTTP__PORT": port, "PYTHONUNBUFFERED": "1"}
