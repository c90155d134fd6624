"""Who makes the trouble: seeded choices, several at once, each written down with when it began, when it ended and whom it hit."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.servers.postgres import StopMode
from tests.servers.postgres_proxy import Trouble
from torture.journal import Journal
from torture.node import Node
from torture.places import Place

_AWAY_SECONDS = 10.0
_DAY = 86_400.0
_INJECTION_SECONDS = 15.0
_STEPS = (1.0, -1.0, 60.0, -60.0, 3600.0, -3600.0, _DAY, -_DAY, 40 * _DAY, -40 * _DAY)
_MANNERS: tuple[dict[str, float], ...] = ({"drop": 0.1}, {"busy": 0.2}, {"hang up": 0.3}, {"slow": 0.5})
_STOP_MODES: tuple[StopMode, ...] = ("fast", "immediate")
_AT_COMMIT: tuple[Trouble, ...] = ("cut before commit", "cut after commit", "swallow commit")
Fault = Callable[[random.Random], None]
MANNERS: dict[str, float] = {"drop": 0.005, "busy": 0.005, "hang up": 0.01, "slow": 0.05}


def can_trace() -> bool:
    """Whether a process can be run under strace here."""
    command = ["strace", "-o", os.devnull, "true"]
    return bool(shutil.which("strace")) and subprocess.run(command, capture_output=True, check=False).returncode == 0


class Nemesis:
    """The faults that can happen where this round is played, and how often each does."""

    def __init__(
        self,
        *,
        chance: random.Random,
        journal: Journal,
        nodes: Sequence[Node],
        callers: Sequence[Node],
        place: Place,
        lease: float,
        behave: Callable[[dict[str, float]], None],
    ) -> None:
        self._chance = chance
        self._journal = journal
        self._nodes = nodes
        self._callers = callers
        self._place = place
        self._lease = lease
        self._behave = behave
        self._database = threading.Lock()
        self._over = threading.Event()
        self._given_up = threading.Event()
        self._guard = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.errors: list[BaseException] = []
        self.missing: list[str] = []
        self._weights = self._choose()

    def _choose(self) -> dict[str, tuple[Fault, float]]:
        """What can be done here, by the name it is noted under; what cannot is said."""
        weights: dict[str, tuple[Fault, float]] = {
            "killed": (self._kill, 10),
            "paused": (self._pause, 1.5),
            "sigterm": (self._terminate, 1),
            "target": (self._manners, 0.7),
            "caller killed": (self._kill_caller, 0.7),
        }
        if any(node.clock for node in self._nodes):
            weights["clock"] = (self._step_clock, 1.5)
        else:
            self.missing.append("clock: no C compiler is here, so no clock is stepped")
        if self._place.server is not None:
            weights |= {"postgres restarted": (self._restart, 2), "postgres away": (self._away, 0.3)}
            weights |= {"cut": (self._cut, 0.8), "black hole": (self._black_hole, 0.5)}
            return weights | {"commit cut": (self._cut_at_commit, 3)}
        if self._place.disk is not None:
            weights["full disk"] = (self._fill_disk, 0.7)
        elif self._place.wants_disk:
            self.missing.append("full disk: only root can mount a small one")
        if can_trace():
            weights["fsync error"] = (self._fail_fsync, 0.5)
        else:
            self.missing.append("fsync error: strace is not installed, or may not trace here")
        return weights

    def owed(self) -> list[str]:
        """The kinds that have not happened yet."""
        return [name for name in self._weights if not self.counts[name]]

    def run(self, over: Callable[[], bool], *, pace: float) -> None:
        """One fault after another, on average one in `pace` seconds, until it is enough; then everything is well again."""
        running: list[Future[None]] = []
        with ThreadPoolExecutor(len(self._nodes) + 4) as pool, self._giving_up_when_told():
            while not over():
                running.append(pool.submit(self._next(), random.Random(self._chance.random())))
                running = [each for each in running if not self._ended(each)]
                while len(running) >= len(self._nodes) + 3 and not over():
                    self._over.wait(0.02)
                    running = [each for each in running if not self._ended(each)]
                self._over.wait(self._chance.expovariate(1 / pace))
            self._over.set()
        for each in running:
            self._ended(each, wait=True)
        self._journal.keep()

    @contextmanager
    def _giving_up_when_told(self) -> Iterator[None]:
        """Let whoever interrupts the run wait for no fault: nobody has to be well again then."""
        try:
            yield
        except (KeyboardInterrupt, SystemExit):
            self._over.set()
            self._given_up.set()
            for node in (*self._nodes, *self._callers):
                node.remove()
            raise

    def _next(self) -> Fault:
        """Every second time one that has not happened yet, if there is any; else by their weights."""
        owed = self.owed()
        if owed and self._chance.random() < 0.5:
            return self._weights[self._chance.choice(owed)][0]
        faults = list(self._weights.values())
        return self._chance.choices(faults, [weight for _, weight in faults])[0][0]

    def watch(self, until: threading.Event) -> None:
        """Note when the machine itself stood still: then leases end without anybody's doing."""
        last = time.monotonic()
        while not until.wait(0.1):
            now = time.monotonic()
            if now - last > self._lease / 4:
                self._note("starved", last)
            last = now

    def _ended(self, fault: Future[None], *, wait: bool = False) -> bool:
        if not wait and not fault.done():
            return False
        if error := fault.exception():
            self.errors.append(error)
        return True

    def _note(self, fault: str, at: float, node: str | None = None, **more: Any) -> None:
        with self._guard:
            self.counts[fault] += 1
            self._journal.add(fault=fault, node=node, at=at, until=time.monotonic(), **more)
            self._journal.keep(durable=False)

    def _free(self, chance: random.Random) -> Node | None:
        """A node that nobody troubles yet, held; one is always left alone."""
        with self._guard:
            free = [node for node in self._nodes if not node.trouble.locked()]
            if len(free) < min(2, len(self._nodes)):
                return None
            node = chance.choice(free)
            node.trouble.acquire()
        if not node.alive:
            self._note("found dead", time.monotonic(), node.name)
        return node

    def _kill(self, chance: random.Random) -> None:
        if (node := self._free(chance)) is None:
            return
        try:
            at = time.monotonic()
            node.kill()
            node.start_quickly()
            # Until now: what the dead one had sent may be read late.
            self._note("killed", at, node.name)
        finally:
            node.trouble.release()

    def _pause(self, chance: random.Random) -> None:
        if (node := self._free(chance)) is None:
            return
        try:
            at = time.monotonic()
            node.send(signal.SIGSTOP)
            # To the end even when the round is over: shorter than the lease it would be no fault.
            until = time.monotonic() + self._lease * chance.uniform(1.1, 1.5)
            locked = self._place.is_locked(until)
            self._given_up.wait(max(0.0, until - time.monotonic()))
            node.send(signal.SIGCONT)
            self._note("paused", at, node.name, locked=locked)
        finally:
            node.trouble.release()

    def _terminate(self, chance: random.Random) -> None:
        if (node := self._free(chance)) is None:
            return
        try:
            at = time.monotonic()
            code = node.terminate()
            self._note("sigterm", at, node.name, exit=code)
            node.start()
        finally:
            node.trouble.release()

    def _kill_caller(self, chance: random.Random) -> None:
        caller = chance.choice(self._callers)
        if caller.trouble.acquire(blocking=False):
            try:
                at = time.monotonic()
                caller.kill()
                self._note("caller killed", at, caller.name)
                caller.start()
            finally:
                caller.trouble.release()

    def _step_clock(self, chance: random.Random) -> None:
        node = chance.choice([node for node in self._nodes if node.clock])
        assert node.clock is not None
        seconds = chance.choice([*_STEPS, 0.0])
        node.clock.step(seconds)
        self._note("clock", time.monotonic(), node.name, seconds=seconds)

    def _manners(self, chance: random.Random) -> None:
        at = time.monotonic()
        manners = chance.choice(_MANNERS)
        self._behave(manners)
        self._over.wait(chance.uniform(0.2, 1.5))
        self._behave(MANNERS)
        self._note("target", at, manners=manners)

    def _restart(self, chance: random.Random) -> None:
        self._stop_server(chance, "postgres restarted", 0)

    def _away(self, chance: random.Random) -> None:
        self._stop_server(chance, "postgres away", _AWAY_SECONDS if chance.random() < 0.5 else chance.uniform(2, 10))

    def _stop_server(self, chance: random.Random, fault: str, seconds: float) -> None:
        server = self._place.server
        if server is None or not self._database.acquire(blocking=False):
            return
        try:
            at = time.monotonic()
            server.stop(chance.choice(_STOP_MODES))
            self._over.wait(seconds)
            server.start()
            self._note(fault, at)
        finally:
            self._database.release()

    def _cut(self, chance: random.Random) -> None:
        name, at = chance.choice(list(self._place.proxies)), time.monotonic()
        self._place.proxies[name].cut_all()
        self._note("cut", at, name)

    def _black_hole(self, chance: random.Random) -> None:
        name, at = chance.choice(list(self._place.proxies)), time.monotonic()
        proxy = self._place.proxies[name]
        proxy.black_hole()
        self._over.wait(self._lease * chance.uniform(0.2, 1.3))
        proxy.recover()
        self._note("black hole", at, name)

    def _cut_at_commit(self, chance: random.Random) -> None:
        name, at = chance.choice(list(self._place.proxies)), time.monotonic()
        trouble = chance.choice(_AT_COMMIT)
        proxy = self._place.proxies[name]
        proxy.at_next_commit(trouble)
        if not proxy.happened.wait(3):
            proxy.relent()
        if proxy.happened.is_set():
            self._note("commit cut", at, name, trouble=trouble)

    def _fill_disk(self, chance: random.Random) -> None:
        disk = self._place.disk
        if disk is None or not self._database.acquire(blocking=False):
            return
        try:
            at = time.monotonic()
            disk.fill()
            self._over.wait(chance.uniform(0.3, 2))
            disk.make_room()
            self._note("full disk", at)
        finally:
            self._database.release()

    def _fail_fsync(self, chance: random.Random) -> None:
        """One failed fsync in one node, which then writes nothing more until it is started again."""
        if (node := self._free(chance)) is None:
            return
        told = Path(self._place.folder, f"strace-{node.name}-{node.starts}.txt")
        inject = f"inject=fsync,fdatasync:error=EIO:when={chance.randrange(3, 40)}"
        try:
            at = time.monotonic()
            node.kill()
            node.start(prefix=["strace", "-f", "-qq", "-o", str(told), "-e", "trace=fsync,fdatasync", "-e", inject])
            self._note("killed", at, node.name)
            failed = self._until_injected(told)
            self._over.wait(chance.uniform(0.5, 3))
            at = time.monotonic()
            node.kill()
            node.start_quickly()
            self._note("killed", at, node.name) if failed is None else self._note("fsync error", failed, node.name)
        finally:
            node.trouble.release()

    def _until_injected(self, told: Path) -> float | None:
        """Wait until strace says that it has made a call fail; since when it can have."""
        deadline, since = time.monotonic() + _INJECTION_SECONDS, time.monotonic()
        while "INJECTED" not in told.read_text(errors="replace"):
            since = time.monotonic()
            if since > deadline or self._over.wait(0.1):
                return None
        return since
