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
from click.testing import CliRunner

from pillarbox.cli.dev import _at_home
from pillarbox.cli.main import cli
from pillarbox.outbound.model import CHANNELS
from pillarbox.settings import load_settings
from pillarbox.sync import Pillarbox, Sms
from tests.servers.daemon import Daemon, environment

READY = r"^(?P<url>http://127\.0\.0\.1:\d+)/login\?token=\S+$"


WHOLE = "Nothing was lost"
TWILIO = {"credentials": {"account_sid": "env:SID", "auth_token": "env:TOKEN"}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dev")


@pytest.fixture(scope="module")
def dev(folder: Path) -> Iterator[Daemon]:
    """One run on an empty database, for every test that leaves it as useful as it found it."""
    url = f"sqlite:///{folder / 'pillarbox.db'}"
    with Daemon(url, "--port", "0", command="dev", admin_key=None, ready=READY) as started:
        started.admin_key = started.out.expect(r"good while this runs: (\S+)$")[1]
        started.out.expect(WHOLE)
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
    assert "/logout" in shown


def test_the_demo_has_a_delivered_message_and_one_that_waits_for_its_retry(dev: Daemon) -> None:
    def settled(page: Any) -> bool:
        return {item["status"] for item in page["items"]} == {"delivered", "failed"}

    items = dev.until("/v1/inbound", settled)["items"]
    assert {item["session_id"]: item["status"] for item in items} == {"echo": "delivered", "away": "failed"}
    (away,) = (item for item in items if item["session_id"] == "away")
    assert away["next_retry_at"]
    dev.logs.expect("^echo: Hello from Pillarbox.$")


def test_the_demo_has_a_message_of_each_channel_one_to_be_tried_again_and_one_refused(dev: Daemon) -> None:
    def settled(page: Any) -> bool:
        return not any(item["status"] in ("pending", "processing") for item in page["items"])

    items = dev.until("/v1/tenants/demo/messages", settled)["items"]
    by_recipient = {item["to_address"]: item for item in items}
    assert {item["channel"] for item in items if item["status"] in ("sent", "delivered")} == set(CHANNELS)
    assert by_recipient["flaky@example.com"]["status"] == "retrying"
    assert by_recipient["flaky@example.com"]["next_attempt_at"]
    assert by_recipient["fail@example.com"]["status"] == "failed"


def test_the_demo_has_an_agents_turn(dev: Daemon) -> None:
    def ended(page: Any) -> bool:
        return len(page["items"]) > 1 and not any(item["status"] == "pending" for item in page["items"])

    events = dev.until("/v1/hooks?session_id=agent", ended)["items"]
    assert {"session_start", "user_prompt_submit", "agent_stop"} <= {event["event_type"] for event in events}


def test_the_three_commands_it_prints_work(dev: Daemon) -> None:
    sending, posting, status = commands(dev)
    message_id = shell(sending).stdout.strip()
    posted = json.loads(shell(posting, "--json").stdout)
    dev.until(f"/v1/inbound/{posted['id']}", lambda message: message["status"] == "delivered")
    dev.logs.expect("^echo: Hello again$")
    sent = dev.until(f"/v1/tenants/demo/messages/{message_id}", lambda message: message["status"] == "sent")
    assert (sent["provider"], sent["to_address"]) == ("sandbox", "you@example.com")
    assert "inbound" in json.loads(shell(status, "--json").stdout)


def test_what_is_posted_after_a_kill_is_said_after_the_next_start(sqlite_url: str) -> None:
    daemon = Daemon(sqlite_url, "--port", "0", command="dev", ready=READY)
    with daemon:
        assert daemon.out.expect(r"kill -9 (\d+)")[1] == str(daemon.pid)
        daemon.out.expect(WHOLE)
        _, posting, _ = commands(daemon)
        daemon.kill()
        assert shell(posting).stdout
        daemon.start()
        daemon.logs.expect("^echo: Hello again$")


def test_a_database_in_use_gets_no_demo_and_commands_that_work(sqlite_url: str) -> None:
    smtp = {"provider": "smtp", "host": "mail.example.com", "from": "me@example.com"}
    with Pillarbox.open(sqlite_url) as box:
        box.tenants.set("demo", providers={"email": smtp})
        box.sessions.open(session_id="echo", target={"kind": "http", "url": "http://127.0.0.1:9/"})
    with Daemon(sqlite_url, "--port", "0", command="dev", ready=READY) as started:
        started.out.expect(WHOLE)
        assert [item["session_id"] for item in started.call("GET", "/v1/sessions")[1]["items"]] == ["echo", "echo-2"]
        assert started.call("GET", "/v1/tenants/demo/messages")[1]["items"] == []
        sending, posting, _ = commands(started)
        sent = started.until(f"/v1/tenants/demo-2/messages/{shell(sending).stdout.strip()}", is_sent)
        assert sent["provider"] == "sandbox"
        posted = json.loads(shell(posting, "--json").stdout)
        started.until(f"/v1/inbound/{posted['id']}", lambda message: message["status"] == "delivered")
        own = started.call(
            "POST", "/v1/tenants/demo/messages", {"channel": "email", "to": "a@example.com", "text": "x"}
        )
        assert started.until(f"/v1/tenants/demo/messages/{own[1]['message_id']}", is_sent)["provider"] == "sandbox"


def is_sent(message: Any) -> bool:
    return bool(message["status"] == "sent")


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


def test_it_takes_the_first_free_port(sqlite_url: str) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(Daemon(sqlite_url, command="dev", ready=READY))
        second = stack.enter_context(Daemon(sqlite_url, command="dev", ready=READY))
        ports = [int(daemon.base_url.rpartition(":")[2]) for daemon in (first, second)]
        assert 8025 <= ports[0] < ports[1]


def test_its_database_is_in_this_folder_unless_named(tmp_path: Path) -> None:
    with Daemon(None, "--json", "--port", "0", command="dev", ready=r"^\{") as daemon:
        said = json.loads(daemon.out.text)
        assert said["url"].startswith("http://127.0.0.1:")
        assert len(said["commands"]) == 3
        assert all(" --database sqlite:///pillarbox-dev.db " in command for command in said["commands"])
        assert shell(said["commands"][0]).stdout
        assert daemon.terminate() == 0
        assert daemon.out.whole().count("\n") == 1
    assert (tmp_path / "pillarbox-dev.db").exists()


def refused(url: str) -> str:
    done = CliRunner().invoke(cli, ["--database", url, "dev", "--port", "0"])
    assert done.exit_code == 2
    return done.stderr


def test_it_swallows_nothing_that_others_want_to_send(sqlite_url: str) -> None:
    assert "dev runs on SQLite" in refused("postgresql://somebody@127.0.0.1:1/theirs")
    with Pillarbox.open(sqlite_url) as box:
        box.tenants.set("acme", providers={"sms": {"provider": "twilio", "from": "+32470123456", **TWILIO}})
        box.tenants.set("demo", providers={"email": {"provider": "sandbox"}})
        message_id = box.outbound.send("acme", Sms(to="+32470123456", text="real"))
        assert "messages wait in it" in refused(sqlite_url)
        assert box.outbound.get(message_id).status == "pending"


def test_it_speaks_to_no_platform_and_no_other_server_that_is_set() -> None:
    settings = load_settings(
        environ={},
        adapters={"telegram": {"bot_token": "1:x", "poll": True}, "slack": {"bot_token": "xoxb-1"}},
        hooks={"forward_url": "https://example.com/hooks"},
        media={"transcription": {"engine": "http", "base_url": "https://example.com"}},
    )
    at_home = _at_home(settings)
    assert at_home.adapters == load_settings(environ={}).adapters
    assert at_home.hooks.forward_url is None
    assert not at_home.conversations.replies
    assert at_home.media.transcription.engine == "none"
    assert at_home.outbound.sandbox
