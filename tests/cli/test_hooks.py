"""`pillarbox hooks` against a real database; what it answers in JSON is what the HTTP endpoint answers."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from pillarbox.box import Pillarbox
from pillarbox.errors import PermanentError
from pillarbox.settings import Settings
from tests.cli.conftest import Ask, Run
from tests.servers.daemon import Daemon

URL = "http://127.0.0.1:9/"


@pytest.fixture
def daemon(database_url: str) -> Iterator[Daemon]:
    """A server that delivers nothing, on the database that the commands use."""
    with Daemon(database_url, "--no-workers") as serving:
        assert (
            serving.call("POST", "/v1/sessions", {"session_id": "s1", "target": {"kind": "http", "url": URL}})[0] == 201
        )
        yield serving


def post(daemon: Daemon, event_type: str, **payload: Any) -> str:
    status, stored = daemon.call(
        "POST", "/v1/hooks", {"session_id": "s1", "event_type": event_type, "payload": payload}
    )
    assert status == 202
    return str(stored["id"])


async def die(database_url: str, number: str) -> None:
    """Work until the event is dead, with a listener that refuses it for good."""
    async with Pillarbox.open(database_url, settings=Settings()) as box, asyncio.timeout(20):

        @box.hooks.on()
        def refuse(_: object) -> None:
            raise PermanentError("no such ticket")

        running = asyncio.create_task(box.run())
        while (await box.hooks.get(int(number))).status != "dead":
            await asyncio.wait([running], timeout=0.01)
        box.stop()
        await running


def test_the_commands_answer_what_the_endpoints_answer(daemon: Daemon, ask: Ask) -> None:
    number = post(daemon, "agent_stop", agent="claude", deep=[{"a": "\u2028"}])
    post(daemon, "tool_use")
    for arguments, path in (
        (["hooks", "list"], "/v1/hooks"),
        (["hooks", "list", "--session", "s1", "--status", "pending"], "/v1/hooks?session_id=s1&status=pending"),
        (["hooks", "list", "--limit", "1"], "/v1/hooks?limit=1"),
        (["hooks", "show", number], f"/v1/hooks/{number}"),
        (["sessions", "show", "s1"], "/v1/sessions/s1"),
    ):
        assert daemon.call("GET", path) == (200, ask(*arguments)), path
    assert ask("hooks", "retry", number)["status"] == "pending"
    assert ask("status")["hooks"]["pending"] == 2


def test_events_are_listed_with_what_became_of_them(daemon: Daemon, run: Run, ask: Ask) -> None:
    numbers = [post(daemon, "agent_stop"), post(daemon, "tool_use")]
    header, *rows = (line.split("\t") for line in run("hooks", "list", "--session", "s1").stdout.splitlines())
    assert header[:5] == ["event", "session", "seq", "type", "status"]
    assert [row[:5] for row in rows] == [
        [numbers[0], "s1", "1", "agent_stop", "pending"],
        [numbers[1], "s1", "2", "tool_use", "pending"],
    ]
    page = ask("hooks", "list", "--limit", "1")
    assert f"--cursor {page['next_cursor']}" in run("hooks", "list", "--limit", "1").stderr
    rest = ask("hooks", "list", "--cursor", page["next_cursor"])
    assert [str(item["id"]) for item in page["items"] + rest["items"]] == numbers
    assert "event_type" in run("hooks", "show", numbers[0]).stdout


def test_an_operator_sends_a_dead_event_again(database_url: str, daemon: Daemon, run: Run, ask: Ask) -> None:
    number = post(daemon, "agent_stop")
    asyncio.run(die(database_url, number))
    (dead,) = ask("hooks", "list", "--status", "dead")["items"]
    assert (str(dead["id"]), "no such ticket" in dead["last_error"]) == (number, True)
    assert "no such ticket" in run("hooks", "list").stdout
    assert run("hooks", "retry", number).stdout == f"event {number} is pending\n"
    assert ask("hooks", "list", "--status", "dead")["items"] == []


def test_what_cannot_be_is_refused_with_its_exit_code(run: Run) -> None:
    assert run("migrate").exit_code == 0
    assert run("hooks", "show", "7").exit_code == 3
    assert run("hooks", "retry", "7").exit_code == 3
    assert run("hooks", "show", "x").exit_code == 2
    assert run("hooks", "list", "--status", "gone").exit_code == 2
    assert run("hooks", "list", "--cursor", "nonsense").exit_code == 2
