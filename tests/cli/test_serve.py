"""`serve` and `worker` as real processes."""

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError

import pytest

from tests.servers.daemon import SECONDS, Daemon, environment
from tests.servers.http_target import hang, serve_http_target
from tests.servers.postgres import PostgresServer

QUICK = {"inbound.poll_seconds": 0.05, "inbound.backoff_seconds": [0.1], "shutdown.grace_seconds": 3}


def run(*arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "pillarbox", *arguments],
        env=environment({}, environ),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def open_session(daemon: Daemon, url: str, session_id: str = "s1") -> None:
    body = {"session_id": session_id, "target": {"kind": "http", "url": url}}
    assert daemon.call("POST", "/v1/sessions", body)[0] == 201


def post(daemon: Daemon, text: str = "hello", session_id: str = "s1") -> int:
    body = {"session_id": session_id, "origin": "terminal", "content": text}
    status, answer = daemon.call("POST", "/v1/inbound", body)
    assert status == 202
    number: int = answer["id"]
    return number


@pytest.mark.empty_database
def test_serve_migrates_says_where_it_listens_and_delivers(database_url: str, tmp_path: Path) -> None:
    received = tmp_path / "received"
    with Daemon(database_url, settings=QUICK) as daemon:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", daemon.base_url)
        target = {"kind": "command", "argv": ["tee", str(received)], "stdin": "content"}
        assert daemon.call("POST", "/v1/sessions", {"session_id": "s1", "target": target})[0] == 201
        number = post(daemon, "ünverändert")
        daemon.until(f"/v1/inbound/{number}", lambda message: message["status"] == "delivered")
        assert received.read_text() == "ünverändert"
        assert daemon.terminate() == 0
    assert daemon.out.whole() == f"listening on {daemon.base_url}\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_exits_0(sqlite_url: str, number: signal.Signals) -> None:
    with Daemon(sqlite_url, settings=QUICK) as daemon:
        daemon.send(number)
        assert daemon.wait() == 0
        assert "Traceback" not in daemon.logs.whole()
        with pytest.raises(URLError):
            daemon.call("GET", "/healthz")


async def test_deliveries_get_the_grace_period_and_then_the_message_waits_for_others(database_url: str) -> None:
    async with serve_http_target() as target:
        target.default = hang()
        with Daemon(database_url, settings=QUICK | {"shutdown.grace_seconds": 1}) as daemon:
            await asyncio.to_thread(open_session, daemon, target.url + "/")
            number = await asyncio.to_thread(post, daemon)
            await asyncio.wait_for(target.received(1), SECONDS)
            began = time.monotonic()
            assert await asyncio.to_thread(daemon.terminate) == 0
            assert 1 <= time.monotonic() - began < SECONDS
    shown = json.loads(run("inbound", "show", str(number), "--json", "--database", database_url).stdout)
    assert shown["status"] in ("pending", "failed")
    assert shown["locked_at"] is None


async def test_a_second_signal_exits_at_once(sqlite_url: str) -> None:
    async with serve_http_target() as target:
        target.default = hang()
        with Daemon(sqlite_url, settings=QUICK | {"shutdown.grace_seconds": 60}) as daemon:
            await asyncio.to_thread(open_session, daemon, target.url + "/")
            await asyncio.to_thread(post, daemon)
            await asyncio.wait_for(target.received(1), SECONDS)
            daemon.send(signal.SIGTERM)
            await asyncio.to_thread(refused, daemon)
            daemon.send(signal.SIGTERM)
            assert await asyncio.to_thread(daemon.wait, 5) == 128 + signal.SIGTERM


def refused(daemon: Daemon) -> None:
    """Wait until nobody listens any more."""
    port = int(daemon.base_url.rpartition(":")[2])
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return
    raise AssertionError("it still listens")


def test_the_first_start_makes_an_admin_key_and_the_second_does_not(database_url: str) -> None:
    with Daemon(database_url, admin_key=None) as daemon:
        daemon.admin_key = daemon.out.expect(r"^admin key, shown this once: (\S+)$")[1]
        assert daemon.call("GET", "/v1/status")[0] == 200
        assert daemon.terminate() == 0
    key = daemon.admin_key
    with Daemon(database_url, admin_key=None) as daemon:
        daemon.admin_key = key
        assert daemon.call("GET", "/v1/status")[0] == 200
        assert daemon.terminate() == 0
        assert "admin key" not in daemon.out.whole()


def test_the_variable_sets_the_admin_key_and_nothing_is_made(sqlite_url: str) -> None:
    with Daemon(sqlite_url, admin_key="mine\n") as daemon:
        daemon.admin_key = "mine"
        assert daemon.call("GET", "/v1/keys") == (200, {"items": [], "next_cursor": None})
        daemon.admin_key = "another"
        assert daemon.call("GET", "/v1/keys")[0] == 401


def test_an_outside_address_needs_a_key(sqlite_url: str) -> None:
    for host in ("0.0.0.0", "::"):  # noqa: S104 - refused
        done = run("serve", "--host", host, "--port", "0", "--database", sqlite_url)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert "PILLARBOX_ADMIN_KEY" in done.stderr
    with Daemon(sqlite_url, "--host", "0.0.0.0", ready=r"^listening on http://0\.0\.0\.0:\d+$") as daemon:  # noqa: S104
        assert daemon.terminate() == 0


def test_json_is_one_value_with_the_address_and_a_new_key(sqlite_url: str) -> None:
    with Daemon(sqlite_url, "--json", admin_key=None, ready=r"^\{") as daemon:
        said = json.loads(daemon.out.text)
        daemon.base_url, daemon.admin_key = said["url"], said["admin_key"]
        assert daemon.call("GET", "/v1/status")[0] == 200
        assert daemon.terminate() == 0
        assert daemon.out.whole().count("\n") == 1


def test_without_workers_nothing_is_delivered_and_a_worker_does_it(database_url: str) -> None:
    with Daemon(database_url, "--no-workers") as daemon:
        target = {"kind": "command", "argv": ["true"]}
        assert daemon.call("POST", "/v1/sessions", {"session_id": "s1", "target": target, "node": "there"})[0] == 201
        number = post(daemon)
        assert daemon.call("GET", f"/v1/inbound/{number}")[1]["attempt_count"] == 0
        with Daemon(
            database_url, "--node", "there", command="worker", settings=QUICK, ready="^working as there$"
        ) as worker:
            daemon.until(f"/v1/inbound/{number}", lambda message: message["status"] == "delivered")
            assert worker.terminate() == 0


@pytest.mark.empty_database
def test_without_migrating_an_empty_database_is_refused(database_url: str) -> None:
    for command in (["serve", "--port", "0"], ["worker"]):
        done = run(*command, "--no-migrate", "--database", database_url)
        assert (done.returncode, done.stdout) == (1, "")
        assert "pillarbox migrate" in done.stderr
    assert run("migrate", "--database", database_url).returncode == 0
    with Daemon(database_url, "--no-migrate") as daemon:
        assert daemon.call("GET", "/v1/status")[0] == 200


def test_a_port_in_use_is_exit_1_in_one_sentence(sqlite_url: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run("serve", "--port", str(port), "--database", sqlite_url, PILLARBOX_ADMIN_KEY="x")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert str(port) in done.stderr


def test_logs_follow_the_settings(sqlite_url: str) -> None:
    settings = QUICK | {"log.format": "json", "log.level": "debug"}
    with Daemon(sqlite_url, settings=settings) as daemon:
        assert daemon.terminate() == 0
    assert all(json.loads(line)["event"] for line in daemon.logs.whole().splitlines())


def test_serve_survives_its_database(private_postgres: PostgresServer) -> None:
    settings = QUICK | {"database.busy_timeout_seconds": 0.5}
    with Daemon(private_postgres.url, settings=settings) as daemon:
        target = {"kind": "command", "argv": ["true"]}
        assert daemon.call("POST", "/v1/sessions", {"session_id": "s1", "target": target})[0] == 201
        private_postgres.stop("immediate")
        assert daemon.call("GET", "/readyz")[0] == 503
        body = {"session_id": "s1", "origin": "terminal", "content": "hello"}
        assert daemon.call("POST", "/v1/inbound", body)[0] == 503
        private_postgres.start()
        daemon.until("/readyz", lambda answer: answer["status"] == "ready")
        number = post(daemon)
        daemon.until(f"/v1/inbound/{number}", lambda message: message["status"] == "delivered")
        private_postgres.stop("immediate")
        began = time.monotonic()
        assert daemon.terminate() == 0
        assert time.monotonic() - began < QUICK["shutdown.grace_seconds"] + 3  # type: ignore[operator]


def test_interrupting_a_short_command_leaves_no_traceback(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"postgresql://127.0.0.1:{silent.getsockname()[1]}/x"
        with Daemon(url, command="status", ready=None) as status:
            silent.settimeout(SECONDS)
            connection, _ = silent.accept()
            status.send(signal.SIGINT)
            connection.close()
            assert status.wait() == 130
            assert "Traceback" not in status.logs.whole()


def test_a_hundred_commands_one_after_another_do_not_hang_the_server(sqlite_url: str) -> None:
    """A fork that runs Python code hangs now and then in a process with threads, and the event loop with it."""
    with Daemon(sqlite_url, settings=QUICK) as daemon:
        target = {"kind": "command", "argv": ["true"]}
        assert daemon.call("POST", "/v1/sessions", {"session_id": "s1", "target": target})[0] == 201
        for _ in range(100):
            number = post(daemon, "again")
            daemon.until(f"/v1/inbound/{number}", lambda message: message["status"] == "delivered")
