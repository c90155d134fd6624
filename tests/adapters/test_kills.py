"""kill -9 after the commit and before the platform heard of it: its next try stores nothing new."""

import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.adapters.platforms import PLATFORMS, Platform, Said
from tests.servers.daemon import Daemon


def post(daemon: Daemon, platform: Platform, said: Said, *, hear: bool) -> int | None:
    """What the platform posts; without hearing, it is stored but the answer is never read."""
    body = platform.body(said)
    address = urlsplit(daemon.base_url)
    fields = [("Host", address.netloc), ("Content-Length", str(len(body))), *platform.proof(body)]
    head = "".join(f"{name}: {value}\r\n" for name, value in fields)
    with socket.create_connection((address.hostname or "", address.port or 0), timeout=30) as connection:
        connection.sendall(f"POST {platform.path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        if hear:
            return int(connection.recv(4096).split(b" ")[1])
        daemon.until("/v1/inbound", lambda answer: any(item["content"] == said.text for item in answer["items"]))
        daemon.kill()
        return None


@pytest.mark.slow
@pytest.mark.parametrize("platform", PLATFORMS, ids=str)
def test_killed_before_the_answer_was_heard_the_next_try_stores_nothing_new(tmp_path: Path, platform: Platform) -> None:
    key, _, name = platform.name.partition(".")
    setting = f"adapters.{key}.{name}" if name else f"adapters.{key}"
    with Daemon(f"sqlite:///{tmp_path}/pillarbox.db", settings={setting: dict(platform.section)}) as daemon:
        for said in (Said(1, "first"), Said(2, "second")):
            post(daemon, platform, said, hear=False)
            daemon.start()
            assert post(daemon, platform, said, hear=True) == 200
        stored = daemon.call("GET", "/v1/inbound")[1]["items"]
    assert [item["content"] for item in stored] == ["first", "second"]
