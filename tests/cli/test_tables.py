"""What people see: tables on a narrow terminal, lengths of time, and what has parts of its own."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pillarbox.cli.output import span
from pillarbox.cli.tables import fitted, shortened
from tests.cli.conftest import Ask, Run
from tests.servers.daemon import environment

SANDBOX = '{"providers": {"email": {"provider": "sandbox"}}}'
DAY, YEAR = 86_400, 365 * 86_400


def on_a_terminal(database_url: str, *arguments: str, columns: int = 80) -> list[str]:
    """The lines that a command shows on a terminal of that width."""
    ours, theirs = pty.openpty()
    subprocess.run(
        [sys.executable, "-m", "pillarbox", *arguments, "--database", database_url],
        env=environment({}, {"COLUMNS": str(columns), "TERM": "xterm"}),
        stdout=theirs,
        check=True,
    )
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()


@pytest.fixture
def tenant(tmp_path: Path, sqlite_url: str) -> str:
    file = tmp_path / "tenant.json"
    file.write_text(SANDBOX)
    pillarbox(sqlite_url, "tenants", "set", "a-tenant-with-a-long-name", str(file))
    return "a-tenant-with-a-long-name"


def pillarbox(database_url: str, *arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "pillarbox", *arguments, "--database", database_url],
        env=environment({}, {}),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.strip()


@pytest.mark.long
def test_an_id_can_be_copied_from_a_terminal_of_any_width(sqlite_url: str, tenant: str) -> None:
    mail = ("--to", "somebody.with.a.long.name@example.com", "--subject", "A subject of many words " * 3, "--text", "x")
    message = pillarbox(sqlite_url, "send", "email", "--tenant", tenant, *mail)
    opt_out = pillarbox(sqlite_url, "opt-outs", "add", "x@example.com", "--tenant", tenant, "--reason", "why not " * 9)
    session = pillarbox(sqlite_url, "sessions", "open", "--url", "http://127.0.0.1:9/", "--title", "a title " * 20)
    pillarbox(sqlite_url, "inbound", "post", session, "many words " * 20)

    for arguments, ids in (
        (["messages", "list"], {message[:13]}),
        (["opt-outs", "list", "--tenant", tenant], {opt_out}),
        (["sessions", "list"], {session}),
        (["inbound", "list"], {session}),
        (["tenants", "list"], {tenant}),
    ):
        for columns in (20, 80):
            head, _, *rows = on_a_terminal(sqlite_url, *arguments, columns=columns)
            assert len(rows) == 1, (arguments, columns)
            assert ids <= set(rows[0].split()), (arguments, columns)
        assert all(len(line) <= 80 for line in (head, *rows)), arguments


def test_a_message_is_named_by_what_a_narrow_terminal_shows_of_its_id(run: Run, ask: Ask) -> None:
    assert run("tenants", "set", "acme", "-", stdin=SANDBOX).exit_code == 0
    mail = ("send", "email", "--tenant", "acme", "--to", "ann@example.com", "--text", "x")
    ids = [ask(*mail)["message_id"] for _ in range(3)]
    for whole, short in zip(ids, shortened(ids), strict=True):
        assert len(short) < len(whole)
        assert ask("messages", "show", short)["message_id"] == whole
    assert ask("messages", "cancel", shortened(ids)[0])["message_id"] == ids[0]
    nobody = run("messages", "show", "00000000-0000")
    assert (nobody.exit_code, "00000000-0000" in nobody.stderr) == (3, True)


def test_ids_are_shortened_only_as_far_as_they_can_be_told_apart() -> None:
    one, other = "01a1e1db-420f-7745-a6cb-d82ec8c22331", "01a1e1db-420f-7746-a6cb-d82ec8c22331"
    assert shortened([one, "7", ""]) == ["01a1e1db-420f", "7", ""]
    assert shortened([one, other]) == ["01a1e1db-420f-7745", "01a1e1db-420f-7746"]


def test_a_narrow_terminal_keeps_what_a_message_says_and_names_what_it_left_out(
    sqlite_url: str, tenant: str, capfd: pytest.CaptureFixture[str]
) -> None:
    pillarbox(sqlite_url, "sessions", "open", "s1", "--url", "http://127.0.0.1:9/")
    pillarbox(sqlite_url, "inbound", "post", "s1", "buy milk")
    mail = ("--to", "ann@example.com", "--subject", "Invoice 7", "--text", "x")
    pillarbox(sqlite_url, "send", "email", "--tenant", tenant, *mail)
    head, _, *rows = on_a_terminal(sqlite_url, "log")
    assert {"id", "status", "where", "attempts", "summary"} <= set(head.split())
    assert {"buy milk", "Invoice 7"} == {row[head.index("summary") :].strip() for row in rows}
    assert capfd.readouterr().err.startswith("Too narrow for: made")


def test_a_wide_terminal_is_told_everything(sqlite_url: str, tenant: str) -> None:
    mail = ("--to", "ann@example.com", "--subject", "Whole", "--text", "x")
    pillarbox(sqlite_url, "send", "email", "--tenant", tenant, *mail)
    head, *_ = on_a_terminal(sqlite_url, "messages", "list", columns=300)
    assert head.split() == ["message", "tenant", "channel", "to", "status", "attempts", "when", "error", "subject"]


@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 60), min_size=1),
    st.integers(1, 200),
    st.sets(st.sampled_from("abcd")),
    st.lists(st.sampled_from("cdef"), unique=True),
)
def test_what_is_neither_loose_nor_spare_keeps_its_place_and_width(
    wanted: dict[str, int], room: int, loose: set[str], spare: list[str]
) -> None:
    found = fitted(wanted, room, loose=loose, spare=spare)
    must = {name: width for name, width in wanted.items() if name not in loose and name not in spare}
    assert must.items() <= found.items()
    assert [name for name in wanted if name in found] == list(found)
    assert all(width <= wanted[name] for name, width in found.items())
    fits = sum(found.values()) + 2 * (len(found) - 1) <= room
    assert fits or found.keys().isdisjoint(spare)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.2, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (3_725, "1 h 2 min"),
        (3_605, "1 h"),
        (12 * DAY + 4 * 3600 + 59, "12 d 4 h"),
        (3 * YEAR, "3 y"),
        (101_312_394, "3 y 77 d"),
    ],
)
def test_a_length_of_time_is_in_units_that_people_use(seconds: float, shown: str) -> None:
    assert span(seconds) == shown


def test_show_sets_out_what_has_parts_of_its_own(run: Run, ask: Ask) -> None:
    assert run("tenants", "set", "acme", "-", stdin=SANDBOX).exit_code == 0
    message = ask("send", "email", "--tenant", "acme", "--to", "ann@example.com", "--text", "x")["message_id"]
    shown = run("messages", "show", message).stdout.splitlines()
    assert [line.split()[0] for line in shown[shown.index("events") + 1 :]] == ["type", "queued"]
    assert '  email  {"provider":"sandbox"}' in run("tenants", "show", "acme").stdout.splitlines()

    ask("sessions", "open", "s1", "--url", "http://127.0.0.1:9/")
    assert "target\n  kind  http\n  url   http://127.0.0.1:9/\n" in run("sessions", "show", "s1").stdout


def test_names_in_a_payload_cannot_move_the_terminal(run: Run, ask: Ask) -> None:
    ask("sessions", "open", "s1", "--url", "http://127.0.0.1:9/")
    posted = ask("inbound", "post", "s1", "x", "--payload", '{"a\\u001b[5m": [{"\\u009b": 1}]}')
    shown = run("inbound", "show", str(posted["id"])).stdout
    assert "a\\u001b[5m" in shown
    assert not any(c < " " or "\x7f" <= c <= "\x9f" for c in shown if c != "\n")
