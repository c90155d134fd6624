"""One life of a node: a process that was started by itself, or forked by a nursery; either can be signalled and waited for."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

_TOLD_SECONDS = 5.0


class Life(Protocol):
    """A process, with all that runs in its group."""

    def ended(self) -> bool: ...

    def signal(self, number: signal.Signals) -> None: ...

    def wait(self, seconds: float) -> int | None: ...


class OwnLife:
    """A process of its own, started as from a shell."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], log: Path) -> None:
        with log.open("ab") as said:
            self._process = subprocess.Popen(
                command,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def ended(self) -> bool:
        return self._process.poll() is not None

    def signal(self, number: signal.Signals) -> None:
        # The whole group: a tracer before it would survive its own death otherwise.
        if not self.ended():
            os.killpg(self._process.pid, number)

    def wait(self, seconds: float) -> int | None:
        """The exit code, or None if it still runs after so long."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None


class ForkedLife:
    """A process that a nursery has forked; signalled by a descriptor, because its number may soon be another's."""

    def __init__(self, pid: int) -> None:
        self._code: int | None = None
        self._over = threading.Event()
        try:
            self._descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            self._descriptor = -1

    def end(self, code: int) -> None:
        self._code = code
        self._over.set()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def ended(self) -> bool:
        return self._over.is_set()

    def signal(self, number: signal.Signals) -> None:
        if self._descriptor >= 0:
            with suppress(ProcessLookupError, OSError):
                signal.pidfd_send_signal(self._descriptor, number)

    def wait(self, seconds: float) -> int | None:
        self._over.wait(seconds)
        return self._code


class Nursery:
    """Forks nodes of one environment, whose output all goes to one file."""

    def __init__(self, environ: Mapping[str, str], log: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "torture.nursery", str(log)],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Ctrl-C is for whoever started all this, who then ends it in order.
            process_group=0,
        )
        self._begun: queue.Queue[ForkedLife | None] = queue.Queue()
        self._alive: dict[int, ForkedLife] = {}
        self._ready = threading.Event()
        self._following = threading.Thread(target=self._follow, daemon=True)
        self._following.start()

    def fork(self, arguments: Sequence[str], *, seconds: float = 60.0) -> ForkedLife:
        if not self._ready.wait(seconds):
            raise RuntimeError("the nursery does not start")
        assert self._process.stdin
        self._process.stdin.write(json.dumps(list(arguments)) + "\n")
        self._process.stdin.flush()
        if (life := self._begun.get(timeout=seconds)) is None:
            raise RuntimeError("the nursery has ended")
        return life

    def close(self) -> None:
        """End it and whatever it forked, also while somebody waits for that."""
        self._process.kill()
        self._process.wait()
        self._following.join(_TOLD_SECONDS)
        for life in list(self._alive.values()):
            life.signal(signal.SIGKILL)
            life.end(-signal.SIGKILL)

    def _follow(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            match line.split():
                case ["begun", pid]:
                    life = self._alive[int(pid)] = ForkedLife(int(pid))
                    self._begun.put(life)
                case ["ended", pid, code]:
                    self._alive.pop(int(pid)).end(int(code))
                case _:
                    self._ready.set()
        self._begun.put(None)
