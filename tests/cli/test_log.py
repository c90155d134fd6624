"""One log of all pipes: listed, followed, and acted on by what matches."""

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from pillarbox.cli.main import cli
from pillarbox.cli.options import Options
from pillarbox.cli.tail import _Lines
from pillarbox.operators.model import LogItem
from pillarbox.sync import Email, Pillarbox, Sms
from tests.servers.daemon import SECONDS, Lines, environment


@pytest.fixture
def box(sqlite_url: str) -> Iterator[Pillarbox]:
    with Pillarbox.open(sqlite_url) as opened:
        opened.sessions.open(session_id="s1", target={"kind": "none"})
        opened.tenants.set("acme", providers={"email": {"provider": "sandbox"}, "sms": {"provider": "sandbox"}})
        opened.inbound.enqueue(session_id="s1", origin="terminal", content="first \x1b[5m")
        yield opened


def run(url: str, *arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["--database", url, *arguments], input=stdin)


def asked(url: str, *arguments: str) -> object:
    done = run(url, *arguments, "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_the_log_shows_both_directions_and_takes_a_filter(box: Pillarbox, sqlite_url: str) -> None:
    box.outbound.send("acme", Email(to="ada@example.com", subject="Welcome", text="x"))
    box.hooks.post("s1", "agent_stop")
    shown = run(sqlite_url, "log").stdout
    assert [line.split("\t")[1] for line in shown.splitlines()[1:]] == ["hooks", "outbound", "inbound"]
    assert "\x1b" not in shown
    filtered = run(sqlite_url, "log", "--filter", "channel:email").stdout.splitlines()
    assert [line.split("\t")[4] for line in filtered[1:]] == ["acme email ada@example.com"]
    listed = run(sqlite_url, "messages", "list", "--tenant", "acme", "--filter", "channel:sms").stdout
    assert len(listed.splitlines()) == 1
    refused = run(sqlite_url, "log", "--filter", "colour:red")
    assert (refused.exit_code, "colour" in refused.stderr) == (2, True)


def test_tail_shows_the_last_then_what_comes_in_and_every_change(box: Pillarbox, sqlite_url: str) -> None:
    command = ["tail", "--last", "1", "--count", "3", "--filter", "pipe:inbound", "--database", sqlite_url]
    process = subprocess.Popen(
        [sys.executable, "-m", "pillarbox", *command],
        env=environment({}, {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout
    assert process.stderr
    out, errors = Lines(process.stdout), Lines(process.stderr)
    try:
        out.expect(r"  inbound   1         pending     s1  first \\u001b\[5m$")
        box.hooks.post("s1", "agent_stop")
        posted = box.inbound.enqueue(session_id="s1", origin="terminal", content="second")
        out.expect(rf"  inbound   {posted.id}         pending     s1  second$")
        box.inbound.expire(posted.id)
        out.expect(rf"  inbound   {posted.id}         expired     s1  second  Expired by an operator\.$")
        assert process.wait(SECONDS) == 0
        assert (out.whole().count("\n"), errors.whole()) == (3, "")
    finally:
        process.kill()
        process.wait()


def test_tail_in_json_is_one_value_a_line_and_a_wrong_filter_is_named(box: Pillarbox, sqlite_url: str) -> None:
    box.inbound.enqueue(session_id="s1", origin="terminal", content="second")
    lines = run(sqlite_url, "tail", "--last", "2", "--count", "2", "--json").stdout.splitlines()
    assert [json.loads(line)["summary"] for line in lines] == ["first \x1b[5m", "second"]
    refused = run(sqlite_url, "tail", "--filter", "status:lost")
    assert (refused.exit_code, "status" in refused.stderr) == (2, True)


def test_all_that_match_are_counted_asked_for_and_acted_on(box: Pillarbox, sqlite_url: str) -> None:
    for number in range(3):
        box.outbound.send("acme", Sms(to=f"+1500555000{number}", text="x"))
    box.outbound.send("acme", Email(to="ada@example.com", text="x"))
    action = ("act", "cancel", "--filter", "channel:sms")
    assert run(sqlite_url, *action, "--dry-run").stdout == "3\n"
    refused = run(sqlite_url, *action, stdin="n\n")
    assert (refused.exit_code, refused.stdout) == (4, "")
    assert "Cancel 3 messages" in refused.stderr
    assert box.outbound.list(status="canceled") == []
    done = run(sqlite_url, *action, "--yes")
    assert (done.exit_code, done.stdout) == (0, "3 done, 0 left as they were\n")
    assert {item.channel for item in box.outbound.list(status="canceled")} == {"sms"}
    assert run(sqlite_url, *action, "--dry-run").stdout == "0\n"


def test_what_was_done_at_the_command_line_is_in_the_audit(box: Pillarbox, sqlite_url: str) -> None:
    assert run(sqlite_url, "inbound", "expire", "1").exit_code == 0
    told = asked(sqlite_url, "audit")
    assert isinstance(told, dict)
    newest = told["items"][0]
    assert (newest["action"], newest["subject_kind"], newest["subject_id"]) == ("expire", "inbound", "1")
    assert newest["who"].startswith("cli:")
    assert "expire\tinbound 1" in run(sqlite_url, "audit").stdout


def test_who_works_and_what_needs_somebody_is_listed(box: Pillarbox, sqlite_url: str) -> None:
    assert asked(sqlite_url, "nodes") == {"items": []}
    told = asked(sqlite_url, "attention")
    assert isinstance(told, dict)
    assert told["items"] == []
    for command in ("nodes", "attention"):
        assert run(sqlite_url, command).stdout.count("\n") == 1


def test_tail_shows_each_change_once_also_back_to_what_was_before(capsys: pytest.CaptureFixture[str]) -> None:
    lines = _Lines(Options(json=True), None)
    made = datetime(2026, 1, 1, tzinfo=UTC)
    waiting = LogItem(
        pipe="inbound",
        id="1",
        created_at=made,
        status="pending",
        attempt_count=0,
        next_attempt_at=None,
        error=None,
        summary="hello",
        session_id="s1",
    )
    for item in (waiting, waiting, replace(waiting, status="processing"), waiting, waiting):
        lines.show(item, made)
    assert [json.loads(line)["status"] for line in capsys.readouterr().out.splitlines()] == [
        "pending",
        "processing",
        "pending",
    ]
