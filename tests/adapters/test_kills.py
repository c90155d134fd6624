"""kill -9 before the commit, and after it before the platform heard of it: its next try leaves each message stored once."""

import socket
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import apsw
import pytest

from tests.adapters.platforms import PLATFORMS, Platform, Said
from tests.servers.daemon import Daemon


def post(
    daemon: Daemon, platform: Platform, said: Said, *, killed: Literal["before", "after"] | None = None
) -> int | None:
    """What the platform posts: answered, or killed before it could be stored, or after that and before it was answered."""
    body = platform.body(said)
    address = urlsplit(daemon.base_url)
    fields = [("Host", address.netloc), ("Content-Length", str(len(body))), *platform.proof(body)]
    head = "".join(f"{name}: {value}\r\n" for name, value in fields)
    with socket.create_connection((address.hostname or "", address.port or 0), timeout=30) as connection:
        connection.sendall(f"POST {platform.path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        if killed is None:
            return int(connection.recv(4096).split(b" ")[1])
        if killed == "after":
            daemon.until("/v1/inbound", lambda answer: any(item["content"] == said.text for item in answer["items"]))
        daemon.kill()
        return None


@pytest.mark.slow
@pytest.mark.parametrize("platform", PLATFORMS, ids=str)
def test_killed_before_or_after_the_commit_the_next_try_leaves_one_row(tmp_path: Path, platform: Platform) -> None:
    key, _, name = platform.name.partition(".")
    setting = f"adapters.{key}.{name}" if name else f"adapters.{key}"
    with Daemon(f"sqlite:///{tmp_path}/pillarbox.db", settings={setting: dict(platform.section)}) as daemon:
        first, second = Said(1, "first"), Said(2, "second")
        with apsw.Connection(str(tmp_path / "pillarbox.db")) as other:
            other.set_busy_timeout(30_000)
            other.execute("UPDATE sessions SET title = 'held' WHERE false")
            post(daemon, platform, first, killed="before")
        daemon.start()
        assert daemon.call("GET", "/v1/inbound")[1]["items"] == []
        assert post(daemon, platform, first) == 200
        post(daemon, platform, second, killed="after")
        daemon.start()
        assert post(daemon, platform, second) == 200
        stored = daemon.call("GET", "/v1/inbound")[1]["items"]
    assert [item["content"] for item in stored] == ["first", "second"]
