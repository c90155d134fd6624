import json
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

from tests.servers.daemon import Daemon, environment

READY = r"^(?P<url>http://127\.0\.0\.1:\d+)/login\?token=\S+$"


@pytest.fixture
def dev(sqlite_url: str) -> Iterator[Daemon]:
    with Daemon(sqlite_url, "--port", "0", command="dev", admin_key=None, ready=READY) as started:
        started.admin_key = started.out.expect(r"good while this runs: (\S+)$")[1]
        started.out.expect(r" status$")
        yield started


def commands(daemon: Daemon) -> list[str]:
    return [line.strip() for line in daemon.out.text.splitlines() if line.startswith("  ")]


def shell(command: str, *more: str) -> "subprocess.CompletedProcess[str]":
    line = f"{command} {shlex.join(more)}"
    done = subprocess.run(line, shell=True, env=environment({}, {}), capture_output=True, text=True, check=False)  # noqa: S602
    assert (line, done.returncode, done.stderr) == (line, 0, "")
    return done


def test_its_address_signs_in(dev: Daemon) -> None:
    browser = build_opener(HTTPCookieProcessor(CookieJar()))
    with browser.open(dev.out.expect(READY)[0]) as page:
        shown = page.read().decode()
    assert page.url == dev.base_url + "/"
    assert "echo" in shown
    assert "away" in shown


def test_the_demo_has_a_delivered_message_and_one_that_waits_for_its_retry(dev: Daemon) -> None:
    def settled(page: Any) -> bool:
        return {item["status"] for item in page["items"]} == {"delivered", "failed"}

    items = dev.until("/v1/inbound", settled)["items"]
    assert {item["session_id"]: item["status"] for item in items} == {"echo": "delivered", "away": "failed"}
    (away,) = (item for item in items if item["session_id"] == "away")
    assert away["next_retry_at"]
    dev.logs.expect("^echo: Hello from Pillarbox.$")


def test_the_commands_it_prints_work(dev: Daemon) -> None:
    opening, posting, sending, status = commands(dev)
    assert shell(opening).stdout
    posted = json.loads(shell(posting, "--json").stdout)
    dev.until(f"/v1/inbound/{posted['id']}", lambda message: message["status"] == "delivered")
    dev.logs.expect("^echo: Hello again$")
    message_id = shell(sending).stdout.strip()
    path = f"/v1/tenants/demo/messages/{message_id}"
    sent = dev.until(path, lambda message: message["status"] == "sent")
    assert (sent["provider"], sent["to_address"]) == ("sandbox", "you@example.com")
    assert "inbound" in json.loads(shell(status, "--json").stdout)


def test_a_database_in_use_gets_no_demo_and_commands_that_work(dev: Daemon, sqlite_url: str) -> None:
    before = dev.until("/v1/sessions", lambda page: len(page["items"]) == 2)
    dev.call("POST", "/v1/sessions/echo/close")
    assert dev.terminate() == 0
    with Daemon(sqlite_url, "--port", "0", command="dev", ready=READY) as again:
        again.out.expect(r" status$")
        assert len(again.call("GET", "/v1/sessions")[1]["items"]) == len(before["items"])
        opening, posting, sending, _ = commands(again)
        assert shell(sending).stdout
        assert shell(opening).stdout == "echo-2\n"
        posted = json.loads(shell(posting, "--json").stdout)
        again.until(f"/v1/inbound/{posted['id']}", lambda message: message["status"] == "delivered")


def test_tenants_that_choose_no_provider_get_the_sandbox_on_every_channel(dev: Daemon) -> None:
    assert dev.call("PUT", "/v1/tenants/mine", {})[0] == 201
    for channel, to, content in (
        ("email", "a@example.com", {"text": "x"}),
        ("sms", "+15005550006", {"text": "x"}),
        ("push", "a-token", {"text": "x"}),
        ("webhook", "https://example.com/x", {"body": 1}),
    ):
        queued = dev.call("POST", "/v1/tenants/mine/messages", {"channel": channel, "to": to, **content})[1]
        path = f"/v1/tenants/mine/messages/{queued['message_id']}"
        ended = dev.until(path, lambda message: message["status"] in ("sent", "delivered"))
        assert (channel, ended["provider"]) == (channel, "sandbox")


def test_a_database_whose_tenants_are_your_own_gets_no_demo_tenant(sqlite_url: str) -> None:
    with Daemon(sqlite_url) as serving:
        assert serving.call("PUT", "/v1/tenants/mine", {})[0] == 201
    with Daemon(sqlite_url, "--port", "0", command="dev", ready=READY) as started:
        started.out.expect(r" status$")
        assert [item["tenant_id"] for item in started.call("GET", "/v1/tenants")[1]["items"]] == ["mine"]
        assert not any(" send " in command for command in commands(started))


def test_it_takes_the_first_free_port(sqlite_url: str) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(Daemon(sqlite_url, command="dev", ready=READY))
        second = stack.enter_context(Daemon(sqlite_url, command="dev", ready=READY))
        ports = [int(daemon.base_url.rpartition(":")[2]) for daemon in (first, second)]
        assert 8025 <= ports[0] < ports[1]


def test_its_database_is_in_this_folder_unless_named(tmp_path: Path) -> None:
    with Daemon(None, "--port", "0", command="dev", ready=READY) as daemon:
        daemon.out.expect(r" status$")
        assert str(tmp_path / "pillarbox-dev.db") in commands(daemon)[0]
    assert (tmp_path / "pillarbox-dev.db").exists()


def test_json_is_one_value(sqlite_url: str) -> None:
    with Daemon(sqlite_url, "--json", "--port", "0", command="dev", ready=r"^\{") as daemon:
        said = json.loads(daemon.out.text)
        assert said["url"].startswith("http://127.0.0.1:")
        assert len(said["commands"]) == 4
        assert daemon.terminate() == 0
        assert daemon.out.whole().count("\n") == 1
