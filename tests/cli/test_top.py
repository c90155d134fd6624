import json
import os
import pty
import subprocess
import sys

import pytest
from click.testing import CliRunner

from pillarbox import Pillarbox
from pillarbox.cli.gauges import Gauge
from pillarbox.cli.main import cli
from pillarbox.operators.nodes import Nodes
from tests.servers.daemon import SECONDS, environment


def read_until(terminal: int, text: str) -> str:
    shown = ""
    while text not in shown:
        shown += os.read(terminal, 65536).decode(errors="replace")
    return shown


async def test_paces_are_what_all_processes_did_between_two_of_their_beats(sqlite_url: str) -> None:
    done = {"outbound.email": [10.0, 2.0, 1.0, 10.0], "inbound": [5.0, 0.0, 0.5, 5.0]}
    async with Pillarbox.open(sqlite_url) as box:
        nodes = [
            Nodes(
                box.database,
                node=name,
                holder=f"{name}:test",
                version="1",
                concurrency=4,
                in_flight=lambda: 3,
                totals=lambda: done,
            )
            for name in ("a", "b")
        ]
        gauge = Gauge(box)
        for node in nodes:
            await node.beat()
        assert (await gauge.look()).paces == {}
        done = {"outbound.email": [40.0, 12.0, 4.0, 25.0], "outbound.sms": [15.0, 0.0, 1.5, 15.0], "inbound": [5.0] * 4}
        for node in nodes:
            await node.beat()
        seen = await gauge.look()
    email, outbound, sms = seen.paces["outbound.email"], seen.paces["outbound"], seen.paces["outbound.sms"]
    assert email.done == pytest.approx(3 * email.failed)
    assert outbound.done == pytest.approx(email.done + sms.done)
    assert email.done == pytest.approx(2 * sms.done)
    assert email.took_seconds == pytest.approx(0.2)
    assert sms.took_seconds == pytest.approx(0.1)
    assert seen.paces["inbound"].done == 0
    assert [(node.name, node.in_flight, node.concurrency) for node in seen.nodes] == [("a", 3, 4), ("b", 3, 4)]


def test_one_look_is_printed_for_scripts(sqlite_url: str) -> None:
    runner = CliRunner()
    runner.invoke(cli, ["sessions", "open", "s1", "--url", "http://127.0.0.1:9/", "--database", sqlite_url])
    runner.invoke(cli, ["inbound", "post", "s1", "hello", "--database", sqlite_url])
    shown = runner.invoke(cli, ["top", "--once", "--database", sqlite_url])
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert next(line for line in lines if line.startswith("inbound")).split()[:4] == ["inbound", "1", "0", "0"]
    assert "Nobody works on this database" in shown.stdout
    told = json.loads(runner.invoke(cli, ["top", "--json", "--database", sqlite_url]).stdout)
    assert (told["pipes"]["inbound"]["pending"], told["paces"], told["nodes"]) == (1, {}, [])


def test_it_is_live_on_a_terminal_until_q_is_pressed(sqlite_url: str) -> None:
    assert CliRunner().invoke(cli, ["migrate", "--database", sqlite_url]).exit_code == 0
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "pillarbox", "top", "--every", "0.1", "--database", sqlite_url],
        env=environment({}, {"TERM": "xterm", "COLUMNS": "120", "LINES": "40"}),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    try:
        assert "inbound" in read_until(ours, "q ends it")
        posted = CliRunner().invoke(
            cli, ["sessions", "open", "s1", "--url", "http://127.0.0.1:9/", "--database", sqlite_url]
        )
        assert posted.exit_code == 0
        CliRunner().invoke(cli, ["inbound", "post", "s1", "hello", "--database", sqlite_url])
        read_until(ours, "0 s")
        os.write(ours, b"q")
        assert process.wait(SECONDS) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
