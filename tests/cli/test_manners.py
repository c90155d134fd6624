"""What commands say to people and scripts: where nobody answers, where nobody delivers, and how to go on from here."""

import asyncio
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from pillarbox.box import Pillarbox as AsyncPillarbox
from pillarbox.cli.main import cli
from pillarbox.cli.send import CHANNELS
from pillarbox.operators.nodes import Node, State, missed
from pillarbox.outbound.model import CHANNELS as KNOWN
from pillarbox.sync import Email, Pillarbox
from tests.servers.daemon import SECONDS, environment

PROGRAM = Path(sys.executable).with_name("pillarbox")
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def test_a_script_that_cannot_answer_is_told_to_say_yes_beforehand(sqlite_url: str) -> None:
    with Pillarbox.open(sqlite_url) as box:
        box.tenants.set("acme", providers={"email": {"provider": "sandbox"}})
        message_id = box.outbound.send("acme", Email(to="ada@example.com", subject="Hi", text="x"))
        act = ["act", "cancel", "--filter", "tenant:acme", "--database", sqlite_url]
        unanswered = CliRunner().invoke(cli, act)
        assert (unanswered.exit_code, "--yes" in unanswered.stderr) == (2, True)
        refused = CliRunner().invoke(cli, act, input="n\n")
        assert (refused.exit_code, "Nothing was changed" in refused.stderr) == (4, True)
        assert box.outbound.get(message_id).status == "pending"
        assert CliRunner().invoke(cli, [*act, "--yes"]).exit_code in (0, 1)


def test_status_says_that_nobody_delivers_and_the_command_it_prints_works(sqlite_url: str) -> None:
    assert CliRunner().invoke(cli, ["migrate", "--database", sqlite_url]).exit_code == 0
    done = subprocess.run(
        [PROGRAM, "status", "--database", sqlite_url],
        env=environment({}, {"PATH": "/usr/bin:/bin"}),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    assert "Nobody delivers" in done.stderr
    (serve, worker) = re.findall(r"`(.*?)`", done.stderr)
    for command in (serve, worker):
        assert "--database sqlite:///pillarbox.db" in command
        tried = [*shlex.split(command), "--help"]
        helped = subprocess.run(tried, env=environment({}, {"PATH": "/usr/bin:/bin"}), capture_output=True, check=True)
        assert b"Usage: pillarbox" in helped.stdout


async def test_status_says_nothing_more_where_somebody_delivers(sqlite_url: str) -> None:
    async with AsyncPillarbox.open(sqlite_url) as box:
        await box.nodes.beat()
        asked = await asyncio.to_thread(CliRunner().invoke, cli, ["status", "--database", sqlite_url])
    assert (asked.exit_code, asked.stderr) == (0, "")


def test_status_and_the_log_call_what_failed_by_the_same_words(sqlite_url: str) -> None:
    assert CliRunner().invoke(cli, ["migrate", "--database", sqlite_url]).exit_code == 0
    shown = CliRunner().invoke(cli, ["status", "--database", sqlite_url]).stdout
    assert shown.splitlines()[0] == "pipe\tpending\tprocessing\tto retry\toldest\talso"


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_chat_message_is_refused_with_a_sentence(sqlite_url: str, text: str) -> None:
    runner = CliRunner()
    opened = ["sessions", "open", "s1", "--url", "http://127.0.0.1:9/", "--database", sqlite_url]
    assert runner.invoke(cli, opened).exit_code == 0
    for given, stdin in ((text, None), ("-", text)):
        post = ["inbound", "post", "s1", given, "--database", sqlite_url]
        refused = runner.invoke(cli, post, input=stdin)
        assert (refused.exit_code, refused.stderr.startswith("text: is empty")) == (2, True)
    file = ["inbound", "post", "s1", text, "--type", "file", "--payload", "{}", "--database", sqlite_url]
    assert runner.invoke(cli, file).exit_code == 0


def test_send_knows_every_channel() -> None:
    assert tuple(CHANNELS.choices) == KNOWN


def node(state: State, started: int, seen: int) -> Node:
    """A process of the node `mill`, started and last seen so many minutes after noon."""
    return Node(
        name="mill",
        process=started,
        role="serve",
        version="1",
        state=state,
        concurrency=1,
        in_flight=0,
        started_at=NOON + timedelta(minutes=started),
        last_seen=NOON + timedelta(minutes=seen),
    )


def test_a_node_that_was_started_again_is_not_missed_even_if_it_was_stopped_since() -> None:
    gone = node("gone", 0, 5)
    assert missed([gone]) == [gone]
    assert missed([gone, node("alive", 6, 9)]) == []
    assert missed([gone, node("stopped", 6, 9)]) == []
    assert missed([gone, node("stopped", 1, 3)]) == [gone]
    again = node("gone", 6, 6)
    assert missed([gone, again]) == [again]
