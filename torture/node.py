"""One `pillarbox serve` or `pillarbox worker` that is killed, stopped and started again for as long as a round lasts."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from torture.clocks import SteppedClock
from torture.life import Life, Nursery, OwnLife

_READY_SECONDS = 120.0
_END_SECONDS = 60.0
_GLANCE = 0.02


class Node:
    """A process by its name; whoever makes trouble for it holds `trouble` meanwhile."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environ: Mapping[str, str],
        log: Path,
        *,
        port: int | None = None,
        clock: SteppedClock | None = None,
    ) -> None:
        self.name = name
        self.port = port
        self.clock = clock
        self.trouble = threading.Lock()
        self.starts = 0
        self._module, *self._arguments = command
        self._environ = {**environ, **(clock.environ if clock else {})}
        self._log = log
        log.touch()
        self._life: Life | None = None
        self._nursery: Nursery | None = None
        self._removed = threading.Event()

    @property
    def alive(self) -> bool:
        return self._life is not None and not self._life.ended()

    def start(self, *, prefix: Sequence[str] = ()) -> None:
        """Start it as from a shell and wait until it is ready."""

        def spawn() -> Life:
            arguments = [part.replace("{life}", str(self.starts)) for part in self._arguments]
            return OwnLife([*prefix, sys.executable, "-m", self._module, *arguments], self._environ, self._log)

        self._start(spawn)

    def start_quickly(self) -> None:
        """The same, forked by a process that has everything imported."""
        nursery = self._nursery
        if nursery is None:
            nursery = self._nursery = Nursery(self._environ, self._log)
        self._start(lambda: nursery.fork(self._arguments))

    def send(self, number: signal.Signals) -> None:
        if self._life is not None:
            self._life.signal(number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        if self._life is not None:
            self._life.wait(_END_SECONDS)

    def terminate(self) -> int | None:
        """SIGTERM, and the exit code; None where it was killed because it did not end."""
        self.send(signal.SIGTERM)
        assert self._life is not None
        code = self._life.wait(_END_SECONDS)
        if code is None:
            self.kill()
        return code

    def remove(self) -> None:
        """Leave nothing running, and start nothing any more."""
        self._removed.set()
        self.kill()
        if self._nursery is not None:
            self._nursery.close()

    def _start(self, spawn: Callable[[], Life]) -> None:
        """Again if the database was away at the wrong moment."""
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline and not self._removed.is_set():
            self.starts += 1
            self._said = self._log.stat().st_size
            self._life = spawn()
            if self._until_ready(deadline):
                return
            self.kill()
        raise RuntimeError(f"{self.name} does not start; see {self._log}")

    def _until_ready(self, deadline: float) -> bool:
        waiting = threading.Event()
        while self.alive and time.monotonic() < deadline and not self._removed.is_set():
            if self._answers() if self.port else self._has_spoken():
                return True
            waiting.wait(_GLANCE)
        return False

    def _answers(self) -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=1) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False

    def _has_spoken(self) -> bool:
        with self._log.open("rb") as log:
            log.seek(self._said)
            said = log.read()
        return b"working as" in said or b"ready" in said
