import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from pillarbox.cli.main import cli
from tests.cli.conftest import Ask, Run
from tests.cli.terminal import Terminal
from tests.servers.daemon import SECONDS, environment

PILLARBOX = [sys.executable, "-m", "pillarbox"]


def invoke(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, arguments)
    assert done.stdout == ""
    return done.exit_code, done.stderr


def process(*arguments: str, **environ: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [*PILLARBOX, *arguments], env=environment({}, environ), capture_output=True, timeout=SECONDS, check=False
    )


def test_help_starts_without_the_heavy_modules() -> None:
    listed = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "pillarbox", "--help"], capture_output=True, check=True, text=True
    )
    imported = {line.rpartition("|")[2].strip() for line in listed.stderr.splitlines()}
    assert "click" in imported
    heavy = {"aiohttp", "apsw", "msgspec", "psycopg", "rich", "starlette", "structlog", "uvicorn", "uvloop"}
    assert imported & heavy == set()


def test_help_lists_every_command_once() -> None:
    shown = CliRunner().invoke(cli, ["--help"]).stdout
    listed = [line.split()[0] for line in shown.partition("Run:")[2].splitlines() if line.startswith("  ")]
    assert sorted(listed) == sorted(cli.commands)


def test_a_command_that_may_mean_the_database_of_dev_says_where_that_is(tmp_path: Path) -> None:
    (tmp_path / "pillarbox-dev.db").touch()
    runner = CliRunner()
    assert "--database sqlite:///pillarbox-dev.db" in runner.invoke(cli, ["status"]).stderr
    assert "pillarbox-dev.db" not in runner.invoke(cli, ["status"]).stderr


@pytest.mark.parametrize(
    "look", [["status"], ["inbound", "retry", "7"], ["top"], ["prune"], ["tenants", "show", "acme"]], ids=" ".join
)
def test_nobody_at_a_terminal_makes_a_database_by_a_slip_of_the_pen(look: list[str], tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'typo.db'}"
    with Terminal(*look, "--database", url) as terminal:
        terminal.expect("There is no database")
        assert terminal.process.wait(SECONDS) == 3
    assert list(tmp_path.iterdir()) == []


def test_a_program_may_look_at_a_database_before_anybody_has_made_it(sqlite_url: str) -> None:
    looked = CliRunner().invoke(cli, ["sessions", "list", "--json", "--database", sqlite_url])
    assert (looked.exit_code, looked.stderr, json.loads(looked.stdout)) == (0, "", {"items": [], "next_cursor": None})


def test_wrong_usage_is_one_sentence_and_exit_2() -> None:
    for arguments in (
        ["nonsense"],
        ["status", "--nonsense"],
        ["sessions", "open", "s1"],
        ["sessions", "open", "s1", "--url", "http://127.0.0.1/", "--command", "cat"],
        ["inbound", "show", "x"],
        ["inbound", "show", str(2**63)],
        ["inbound", "list", "--status", "nonsense"],
        ["serve", "--port", "70000"],
        ["status", "--database", "mysql://x"],
        ["status", "--config", "missing.toml"],
        ["sessions", "show", "\udcff"],
    ):
        code, said = invoke(*arguments)
        assert (arguments, code, said.count("\n")) == (arguments, 2, 1)
        assert "Traceback" not in said


def test_a_setting_at_fault_is_named_with_exit_2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PILLARBOX_INBOUND__LEASE", "1")
    code, said = invoke("status")
    assert code == 2
    assert "PILLARBOX_INBOUND__LEASE " in said


def test_a_settings_file_is_read_where_it_is_named(tmp_path: Path) -> None:
    file = tmp_path / "other.toml"
    file.write_text("[inbound]\nlease = 1")
    assert invoke("status", "--config", str(file)) == invoke("--config", str(file), "status")
    assert "inbound.lease," in invoke("status", "--config", str(file))[1]


def test_the_exit_codes_tell_missing_from_refused(run: Run) -> None:
    assert run("sessions", "open", "s1", "--url", "http://127.0.0.1:9/").exit_code == 0
    assert run("sessions", "open", "s1", "--url", "http://127.0.0.1:9/").exit_code == 4
    assert run("sessions", "show", "s2").exit_code == 3
    assert run("inbound", "post", "s2", "hello").exit_code == 3
    assert run("inbound", "show", "7").exit_code == 3
    assert run("keys", "revoke", "nobody").exit_code == 3
    assert run("sessions", "open", "s\x1b2", "--url", "http://127.0.0.1:9/").exit_code == 2
    assert run("sessions", "close", "s1").exit_code == 0
    refused = run("inbound", "post", "s1", "hello")
    assert (refused.exit_code, refused.stdout) == (4, "")
    assert refused.stderr == "Session s1 is closed; open a new one.\n"


def test_a_database_that_cannot_be_reached_is_exit_1(tmp_path: Path) -> None:
    for url in (f"sqlite:///{tmp_path}/missing/folder.db", "postgresql://127.0.0.1:9/x"):
        code, said = invoke("status", "--database", url)
        assert (url, code, said.count("\n")) == (url, 1, 1)


def test_options_are_taken_before_and_after_the_command_and_from_the_environment(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = CliRunner()
    assert runner.invoke(cli, ["migrate", "--database", sqlite_url]).exit_code == 0
    before = runner.invoke(cli, ["--database", sqlite_url, "--json", "sessions", "list"])
    between = runner.invoke(cli, ["sessions", "--database", sqlite_url, "--json", "list"])
    after = runner.invoke(cli, ["sessions", "list", "--database", sqlite_url, "--json"])
    monkeypatch.setenv("PILLARBOX_DATABASE", sqlite_url)
    variable = runner.invoke(cli, ["sessions", "list", "--json"])
    assert {done.stdout for done in (before, between, after, variable)} == {'{"items":[],"next_cursor":null}\n'}


def test_control_characters_are_escaped_for_people_and_programs(run: Run, ask: Ask) -> None:
    ask("sessions", "open", "s1", "--url", "http://127.0.0.1:9/", "--title", "a\x9bb")
    content = "\x1b]0;owned\x07 \x7f \x9b31m \u2028 [red]rich[/red] ü"
    posted = ask("inbound", "post", "s1", "-", stdin=content.encode())
    number = str(posted["id"])
    assert ask("inbound", "show", number)["content"] == content
    for arguments in (
        ["inbound", "show", number],
        ["inbound", "list"],
        ["sessions", "list"],
        ["sessions", "show", "s1"],
    ):
        for shown in (run(*arguments).stdout, run(*arguments, "--json").stdout):
            assert not any(c < " " or "\x7f" <= c <= "\x9f" for c in shown if c not in "\n\t"), arguments
    assert "[red]rich[/red] ü" in run("inbound", "list").stdout


def test_a_terminal_gets_a_table_and_no_control_sequences_of_others(sqlite_url: str) -> None:
    process("sessions", "open", "s1", "--url", "http://127.0.0.1:9/", "--database", sqlite_url)
    process("inbound", "post", "s1", "[bold]x\x1b[5m", "--database", sqlite_url)
    ours, theirs = pty.openpty()
    subprocess.run(
        [*PILLARBOX, "inbound", "list", "--database", sqlite_url],
        env=environment({}, {"COLUMNS": "150", "TERM": "xterm"}),
        stdout=theirs,
        check=True,
    )
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert "[bold]x\\u001b[5m" in shown
    assert "\x1b[5m" not in shown
    assert "─" in shown


def test_a_reader_that_leaves_early_causes_no_noise(sqlite_url: str) -> None:
    process("migrate", "--database", sqlite_url)
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [*PILLARBOX, "status", "--database", sqlite_url],
        env=environment({}, {}),
        stdout=write_end,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write_end)
    assert done.stderr == b""


def test_text_beyond_the_terminals_encoding_is_escaped(sqlite_url: str) -> None:
    process("sessions", "open", "s1", "--url", "http://127.0.0.1:9/", "--title", "日本", "--database", sqlite_url)
    shown = process("sessions", "list", "--database", sqlite_url, PYTHONIOENCODING="latin-1", PYTHONUTF8="0")
    assert (shown.returncode, shown.stderr) == (0, b"")
    assert b"\\u65e5\\u672c" in shown.stdout
