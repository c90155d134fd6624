"""Everybody who takes part in a round: the recorder, the nodes, the producers and the callers, as processes."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import Request, urlopen

from tests.servers.daemon import ADMIN_KEY, SECRETS_KEY, environment
from tests.servers.postgres import free_port
from torture.clocks import SteppedClock, build_shim
from torture.node import Node
from torture.places import Place
from torture.plan import Plan
from torture.producing.settings import Round
from torture.saying import SIGNING_SECRET

_ENDING_SECONDS = 120.0
_STEPPED = 2
"""So many nodes have a wall clock that can be stepped; the others have the right time."""


class Stage:
    """The processes of one round, and where they find one another."""

    def __init__(self, plan: Plan, seed: int, folder: Path, place: Place) -> None:
        self._plan = plan
        self._seed = seed
        self._folder = folder
        self._place = place
        self._target_port = free_port()
        self.target = f"http://127.0.0.1:{self._target_port}"
        self.nodes = [self._node(number) for number in range(plan.nodes)]
        self.callers = [self._caller(number) for number in range(plan.callers)]
        self.acknowledged = 0
        self._ready = threading.Event()

    def _settings(self, name: str) -> dict[str, object]:
        lease = self._plan.lease
        return {
            "log.level": "warning",
            "shutdown.grace_seconds": 5,
            "database.busy_timeout_seconds": 2,
            "database.statement_timeout_seconds": 3,
            "inbound.lease_seconds": lease,
            "inbound.poll_seconds": 0.2,
            "inbound.backoff_seconds": [0.05, 0.2, 0.5],
            "inbound.deaths_before_longest_wait": 1000,
            "hooks.lease_seconds": lease,
            "hooks.poll_seconds": 0.2,
            "hooks.backoff_seconds": [0.05, 0.2, 0.5],
            "hooks.deaths_before_longest_wait": 1000,
            "hooks.forward_url": f"{self.target}/hooks/{name}",
            "hooks.spool_dir": str(self._folder / "spool"),
            "outbound.lease_seconds": lease,
            "outbound.poll_seconds": 0.2,
            "outbound.backoff_base_seconds": 0.05,
            "outbound.trusted_destinations": [self.target],
            # Each call tells in the name of a header which node made it.
            "outbound.providers": {
                "webhook": {
                    "provider": "webhook",
                    "credentials": {"signing_secret": "env:TORTURE_SIGNING_SECRET"},
                    "signature_header": f"torture-node-{name}",
                }
            },
            "inbox.lease_seconds": self._plan.inbox_lease,
            **({"secrets.key": SECRETS_KEY} if self._place.server else {}),
        }

    def _environ(self, name: str) -> dict[str, str]:
        secrets = {"PILLARBOX_ADMIN_KEY": ADMIN_KEY, "TORTURE_SIGNING_SECRET": SIGNING_SECRET}
        return environment(self._settings(name), secrets)

    def _node(self, number: int) -> Node:
        """Every third one is a worker without a door."""
        name = f"n{number}"
        port = None if number % 3 == 1 else free_port()
        command = ["pillarbox", "serve" if port else "worker", "--node", name, "--no-migrate"]
        command += ["--database", self._place.url_for(name), *(("--port", str(port)) if port else ())]
        shim = build_shim(self._folder)
        clock = SteppedClock(shim, self._folder / f"{name}.clock") if shim and number < _STEPPED else None
        return Node(name, command, self._environ(name), self._folder / f"{name}.log", port=port, clock=clock)

    def _caller(self, number: int) -> Node:
        name = f"caller{number}"
        command = ["torture.caller", str(self._folder / f"{name}.json"), f"{name}-{{life}}"]
        (self._folder / f"{name}.json").write_bytes(self._round(self._place.url_for(name)).encoded())
        return Node(name, command, self._environ(name), self._folder / f"{name}.log")

    def _round(self, database: str) -> Round:
        plan, ours = self._plan, self._environ("nobody")
        return Round(
            folder=str(self._folder),
            seed=self._seed,
            database=database,
            receivers=self._place.url_for("receivers"),
            ports=[node.port for node in self.nodes if node.port],
            target=self.target,
            sessions=plan.sessions,
            closers=plan.closers,
            hook_sessions=plan.hook_sessions,
            agents=plan.agents,
            senders=plan.senders,
            contenders=plan.contenders,
            inbox_lease=plan.inbox_lease,
            environ={name: value for name, value in ours.items() if name.startswith("PILLARBOX_")},
        )

    def start(self) -> None:
        """The target first, then the nodes, then whoever sends."""
        self._start_recorder()
        migrate = [sys.executable, "-m", "pillarbox", "migrate", "--database", self._place.url]
        subprocess.run(migrate, env=self._environ("nobody"), check=True, capture_output=True)
        with ThreadPoolExecutor(len(self.nodes)) as starting:
            for started in [starting.submit(node.start_quickly) for node in self.nodes]:
                started.result()
        self._start_producers()
        assert self._ready.wait(60), "the producers are not ready"
        for caller in self.callers:
            caller.start()

    def behave(self, manners: dict[str, float]) -> None:
        """Tell the target how to answer from now on."""
        told = Request(f"{self.target}/manners", json.dumps(manners).encode(), method="POST")  # noqa: S310 - our own
        with urlopen(told, timeout=30):  # noqa: S310
            pass

    def end_producing(self) -> None:
        """Callers end at once, producers when all they began is answered."""
        for caller in self.callers:
            caller.kill()
        assert self._producers.stdin
        self._producers.stdin.close()
        if self._producers.wait(_ENDING_SECONDS):
            raise RuntimeError("the producers failed")

    def spooled(self) -> int:
        """How many files with events wait beside the database."""
        files = (path for path in (self._folder / "spool").rglob("*") if path.is_file())
        return sum(path.stat().st_size > 0 for path in files)

    def kill(self) -> None:
        """Leave nothing running."""
        for node in [*self.nodes, *self.callers]:
            node.remove()
        for name in ("_producers", "_recorder"):
            process: subprocess.Popen[bytes] | None = getattr(self, name, None)
            if process is not None:
                process.kill()
                process.wait()

    def _start_recorder(self) -> None:
        command = [sys.executable, "-m", "torture.recorder", str(self._folder), str(self._target_port), str(self._seed)]
        self._recorder = subprocess.Popen(command, stdout=subprocess.PIPE, process_group=0)
        assert self._recorder.stdout
        self._recorder.stdout.readline()

    def _start_producers(self) -> None:
        path = self._folder / "round.json"
        path.write_bytes(self._round(self._place.url).encoded())
        command = [sys.executable, "-m", "torture.producers", str(path)]
        self._producers = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0)
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        """The producers say how many they have written down."""
        assert self._producers.stdout
        for line in self._producers.stdout:
            if line.strip() == b"ready":
                self._ready.set()
            else:
                self.acknowledged = int(line)
