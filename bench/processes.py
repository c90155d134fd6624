"""The processes of one measurement, and the pipe by which every job of theirs reports."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bench.environment import ROOT, python_for
from bench.peers.stamps import PIPE, RECORD
from bench.rows import Row

START = 40.0
"""How long a process may take to begin."""
Stamp = tuple[float, float]


class Failed(Exception):
    """A queue could not be measured; the text says why."""


class Reports:
    """The reading end of the pipe."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "reports"
        os.mkfifo(self.path)
        # Open for writing too, so that it does not end when a worker does.
        self._end = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)
        self._rest = b""
        self._looking: list[float] = []

    def close(self) -> None:
        os.close(self._end)
        self.path.unlink()

    def wait(self, seconds: float) -> list[Stamp]:
        """The jobs that have been reported, as soon as there are some; nothing when the time is over."""
        deadline = time.monotonic() + seconds
        while (came := self._read(until(deadline))) is not None:
            if came:
                return came
        return []

    def looking(self, seconds: float) -> float:
        """When the first worker began to look for jobs."""
        while not self._looking:
            if self._read(seconds) is None:
                raise Failed("work: nobody looked for jobs in time")
        return self._looking[0]

    def forget(self) -> None:
        """Drop what workers that have ended left behind."""
        while self._read(0) is not None:
            pass
        self._looking.clear()

    def _read(self, seconds: float) -> list[Stamp] | None:
        """What has come, without who only looks; None when the time is over."""
        if not select.select([self._end], [], [], max(0.0, seconds))[0]:
            return None
        came = self._rest + os.read(self._end, 1 << 16)
        whole = len(came) - len(came) % RECORD.size
        self._rest = came[whole:]
        stamps = list(RECORD.iter_unpack(came[:whole]))
        self._looking += [began for sent, began in stamps if not sent]
        return [(sent, began) for sent, began in stamps if sent]


class Process:
    """One process of a queue in one role."""

    def __init__(self, row: Row, role: str, url: str, *numbers: float, reports: Reports) -> None:
        command = [python_for(row.package), "-m", "bench.peers", row.module, role, url, *map(str, numbers)]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("PILLARBOX_")}
        self._role = role
        self._errors = reports.path.with_name(f"{role}.errors")
        with self._errors.open("w") as errors:
            self._process: subprocess.Popen[str] = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environ | {PIPE: str(reports.path)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        assert self._process.stdin
        assert self._process.stdout
        self._stdin, self._stdout = self._process.stdin, self._process.stdout

    @property
    def pid(self) -> int:
        return self._process.pid

    def line(self, seconds: float = START) -> str:
        """Its next line, which must come in time."""
        ready = select.select([self._stdout], [], [], seconds)[0]
        said = self._stdout.readline().strip() if ready else ""
        if not said:
            raise Failed(self.complaint())
        return said

    def tell(self) -> None:
        """Let it go on."""
        try:
            self._stdin.write("\n")
            self._stdin.flush()
        except BrokenPipeError:
            raise Failed(self.complaint()) from None

    def finish(self) -> None:
        if self._process.wait(START):
            raise Failed(self.complaint())

    def kill(self) -> None:
        """End it with everything it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._stdin.close()
        self._stdout.close()

    def complaint(self) -> str:
        """The last it said about what went wrong."""
        lines = [line.strip() for line in self._errors.read_text().splitlines() if line.strip()]
        return f"{self._role}: {lines[-1][:200]}" if lines else f"{self._role} said nothing in time"


@contextmanager
def process(row: Row, role: str, url: str, *numbers: float, reports: Reports) -> Iterator[Process]:
    started = Process(row, role, url, *numbers, reports=reports)
    try:
        yield started
    finally:
        started.kill()


@contextmanager
def workers(row: Row, url: str, number: int, *, reports: Reports) -> Iterator[list[Process]]:
    """So many workers that begin together."""
    started = [Process(row, "work", url, reports=reports) for _ in range(number)]
    try:
        for worker in started:
            worker.line()
        for worker in started:
            worker.tell()
        yield started
    finally:
        for worker in started:
            worker.kill()
        reports.forget()


def held(pid: int) -> float:
    """MiB in memory: the resident set of a process, and what its children have that they do not share with anyone."""
    memory = _rollup(pid, "Rss")
    for child in _children(pid):
        memory += _rollup(child, "Private_Clean") + _rollup(child, "Private_Dirty")
    return memory


def _rollup(pid: int, name: str) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


def _children(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            yield child
            yield from _children(child)


def until(deadline: float) -> float:
    return deadline - time.monotonic()


Found = dict[str, Any]
