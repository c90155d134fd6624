"""A real pgbouncer in transaction mode before one PostgreSQL server."""

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from tests.servers.postgres import ServerMissing, free_port

CONFIGURATION = """
[databases]
* = host={host} port={server_port}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
server_reset_query = DISCARD ALL
logfile = {directory}/pgbouncer.log
ignore_startup_parameters = options
"""


@contextmanager
def transaction_pooler(server_url: str, directory: Path) -> Iterator[str]:
    """The URL by which the same database is reached through the pooler; it has two server connections for all its clients."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        raise ServerMissing("This test needs pgbouncer: apt-get install pgbouncer.")
    parts = urlsplit(server_url)
    port = free_port()
    configuration = directory / "pgbouncer.ini"
    configuration.write_text(
        CONFIGURATION.format(host=parts.hostname, server_port=parts.port, port=port, directory=directory)
        # Any user may come in, as the one the test server lets in.
        .replace("* = host", f"* = user={parts.username} host")
    )
    user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
    if user:
        os.chown(directory, user.pw_uid, user.pw_gid)
    process = subprocess.Popen(
        [program, "--quiet", str(configuration)],
        user=user.pw_uid if user else None,
        group=user.pw_gid if user else None,
        extra_groups=[] if user else None,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(port, process)
        yield urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}", query="pooler=transaction"))
    finally:
        process.terminate()
        process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.02)
    raise ServerMissing(f"pgbouncer ended with {process.returncode}.")
