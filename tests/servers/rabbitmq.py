"""A real RabbitMQ: the one PILLARBOX_TEST_RABBITMQ names, or Debian's server with folders, ports and an epmd of our own."""

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Self

from tests.servers.postgres import ServerMissing, free_port

_PATIENCE = 60.0
_GLANCE = 0.05
_PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")

CONFIGURATION = """
listeners.tcp.local = 127.0.0.1:{port}
log.console = false
disk_free_limit.absolute = 50MB
"""


class RabbitServer:
    """A server of our own below `directory`; it needs no system service and harms none."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{(self._directory / 'port').read_text()}/"

    @property
    def running(self) -> bool:
        return any(self._alive(name) for name in ("rabbitmq", "epmd"))

    def start(self) -> Self:
        program, epmd = find_programs()
        self._directory.mkdir(parents=True)
        port, epmd_port, nodes_port = (str(free_port()) for _ in range(3))
        (self._directory / "port").write_text(port)
        (self._directory / "rabbitmq.conf").write_text(CONFIGURATION.format(port=port))
        (self._directory / "enabled_plugins").write_text("[].\n")
        # Its own epmd, so that the one of a system's own Erlang programs is neither used nor started.
        self._spawn("epmd", [epmd, "-address", "127.0.0.1", "-port", epmd_port], {}, port=int(epmd_port))
        self._spawn("rabbitmq", [program], self._environment(epmd_port, nodes_port), port=int(port))
        return self

    def stop(self) -> None:
        """Kill it: what the tests leave behind is nobody's."""
        for name in ("rabbitmq", "epmd"):
            if self._alive(name):
                os.killpg(self._pid(name), signal.SIGKILL)

    def _environment(self, epmd_port: str, nodes_port: str) -> dict[str, str]:
        here = str(self._directory)
        return {
            "HOME": here,
            "ERL_EPMD_PORT": epmd_port,
            "RABBITMQ_NODENAME": f"pillarbox{epmd_port}@localhost",
            "RABBITMQ_DIST_PORT": nodes_port,
            "RABBITMQ_CONFIG_FILE": f"{here}/rabbitmq.conf",
            "RABBITMQ_CONF_ENV_FILE": f"{here}/none",
            "RABBITMQ_ADVANCED_CONFIG_FILE": f"{here}/none",
            "RABBITMQ_MNESIA_BASE": f"{here}/mnesia",
            "RABBITMQ_LOG_BASE": f"{here}/log",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{here}/enabled_plugins",
            "RABBITMQ_PID_FILE": f"{here}/none",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1 +sbwt none",
        }

    def _spawn(self, name: str, command: list[str], environment: dict[str, str], *, port: int) -> None:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("RABBITMQ_", "ERL_"))}
        with (self._directory / f"{name}.log").open("w") as log:
            process = subprocess.Popen(
                command,
                cwd=self._directory,
                env=kept | environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        (self._directory / f"{name}.pid").write_text(str(process.pid))
        deadline, waiting = time.monotonic() + _PATIENCE, threading.Event()
        while not _listens(port):
            if time.monotonic() > deadline or process.poll() is not None:
                self.stop()
                raise RuntimeError(f"{name} did not start: {(self._directory / f'{name}.log').read_text()[-2000:]}")
            waiting.wait(_GLANCE)
        # It outlives this worker, and the run's last act ends it by its id: nobody waits for it.
        process.returncode = 0

    def _pid(self, name: str) -> int:
        return int((self._directory / f"{name}.pid").read_text())

    def _alive(self, name: str) -> bool:
        try:
            os.killpg(self._pid(name), 0)
        except (FileNotFoundError, ProcessLookupError):
            return False
        return True


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return not probe.connect_ex(("127.0.0.1", port))


def shared_rabbitmq(directory: Path) -> str:
    """The URL of the server that all workers of a test run share; the first that asks starts it, below `directory`."""
    if given := os.environ.get("PILLARBOX_TEST_RABBITMQ"):
        return given
    server = RabbitServer(directory / "rabbitmq")
    with (directory / "rabbitmq.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not server.running:
            server.start()
    return server.url


def find_programs() -> tuple[str, str]:
    epmd = shutil.which("epmd")
    if not _PROGRAM.exists() or epmd is None:
        raise ServerMissing(
            "These tests need RabbitMQ: apt-get install rabbitmq-server, "
            "or set PILLARBOX_TEST_RABBITMQ to the URL of a server."
        )
    return str(_PROGRAM), epmd
