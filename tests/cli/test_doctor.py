import json
import os
import re
import sqlite3
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from pillarbox.cli.main import cli
from tests.cli.conftest import Ask, Run
from tests.troubles.disks import small_disk


def problems(url: str) -> dict[str, str]:
    done = CliRunner().invoke(cli, ["doctor", "--json", "--database", url])
    report = json.loads(done.stdout)
    found = {check["name"]: check["detail"] for check in report["checks"] if not check["ok"]}
    assert (done.exit_code, report["ok"]) == ((1, False) if found else (0, True))
    return found


def names(report: Any) -> set[str]:
    return {check["name"] for check in report["checks"]}


def test_a_good_database_passes_every_check(run: Run, ask: Ask) -> None:
    run("migrate")
    report = ask("doctor")
    assert report["ok"] is True
    assert all(check.keys() == {"name", "ok", "detail"} for check in report["checks"])
    assert names(report) >= {"settings", "database", "schema", "clock", "tmux"}
    assert "PROBLEM" not in run("doctor").stdout


def test_each_database_has_checks_of_its_own(sqlite_url: str, postgres_url: str) -> None:
    for url, expected in (
        (sqlite_url, {"sqlite", "pragmas", "integrity", "disk", "mode", "filesystem"}),
        (postgres_url, {"server", "durability", "synchronous_commit"}),
    ):
        runner = CliRunner()
        runner.invoke(cli, ["migrate", "--database", url])
        report = json.loads(runner.invoke(cli, ["doctor", "--json", "--database", url]).stdout)
        assert names(report) >= expected


def test_looking_makes_no_database(tmp_path: Path) -> None:
    file = tmp_path / "nowhere.db"
    assert problems(f"sqlite:///{file}") == {}
    assert not file.exists()


def test_an_empty_database_is_advice(postgres_url: str) -> None:
    assert problems(postgres_url) == {}


def test_a_schema_from_the_future_is_a_problem(run: Run, database_url: str) -> None:
    run("migrate")
    insert = "INSERT INTO schema_migration (version, name) VALUES (9999, 'from the future')"
    if database_url.startswith("sqlite"):
        with sqlite3.connect(database_url.removeprefix("sqlite:///")) as file:
            file.execute(insert)
        file.close()
    else:
        with psycopg.connect(database_url) as connection:
            connection.execute(insert)
    assert "9999" in problems(database_url)["schema"]
    refused = run("status")
    assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)


def test_what_is_no_database_is_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "garbage.db"
    file.write_bytes(b"garbage" * 1000)
    assert problems(f"sqlite:///{file}").keys() == {"database"}
    assert problems(f"sqlite:///{tmp_path}/missing/folder.db").keys() == {"database"}
    assert problems("postgresql://127.0.0.1:9/x").keys() == {"database"}


def test_a_damaged_file_is_a_problem(sqlite_url: str) -> None:
    runner = CliRunner()
    for arguments in (["migrate"], ["sessions", "open", "s1", "--url", "http://127.0.0.1:9/"]):
        runner.invoke(cli, [*arguments, "--database", sqlite_url])
    file = Path(sqlite_url.removeprefix("sqlite:///"))
    with sqlite3.connect(file) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE type = 'index' AND tbl_name = 'sessions'"
        page = connection.execute(query).fetchone()[0] - 1
    connection.close()
    content = bytearray(file.read_bytes())
    content[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    file.write_bytes(content)
    found = problems(sqlite_url)
    assert found.keys() == {"integrity"}
    assert found["integrity"].isprintable()
    assert "***" not in found["integrity"]
    assert "`pillarbox restore FILE`" in found["integrity"]
    copied = runner.invoke(cli, ["backup", str(file.with_name("copy.db")), "--database", sqlite_url])
    assert (copied.exit_code, copied.stderr.count("\n"), "another backup" in copied.stderr) == (1, 1, False)
    assert f"{file} is damaged" in copied.stderr
    assert "nothing was copied" in copied.stderr


def test_a_full_disk_is_told_in_units_that_say_something(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", mebibytes=8) as disk:
        url = f"sqlite:///{disk}/pillarbox.db"
        assert CliRunner().invoke(cli, ["migrate", "--database", url]).exit_code == 0
        room = os.statvfs(disk)
        (disk / "else").write_bytes(bytes(room.f_bavail * room.f_frsize - 512 * 1024))
        assert re.match(r"only [1-9]\d* KiB are free; make room", problems(url)["disk"])


def test_settings_at_fault_are_a_problem(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PILLARBOX_INBOUND__LEASE", "1")
    assert "PILLARBOX_INBOUND__LEASE " in problems(sqlite_url)["settings"]


def test_a_file_that_others_may_read_is_advice(sqlite_url: str) -> None:
    runner = CliRunner()
    runner.invoke(cli, ["migrate", "--database", sqlite_url])
    file = Path(sqlite_url.removeprefix("sqlite:///"))
    for mode, advised in ((0o644, True), (0o600, False)):
        file.chmod(mode)
        report = json.loads(runner.invoke(cli, ["doctor", "--json", "--database", sqlite_url]).stdout)
        (check,) = (each for each in report["checks"] if each["name"] == "mode")
        assert (check["ok"], check["detail"].startswith("warning: ")) == (True, advised)


def test_a_credential_that_leads_nowhere_is_named_and_its_secret_never_read_out(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = CliRunner()
    tenant = {
        "providers": {
            "email": {
                "provider": "sendgrid",
                "from": "a@example.com",
                "credentials": {"api_key": "env:NO_SUCH_KEY"},
            },
            "sms": {
                "provider": "twilio",
                "from": "+15005550006",
                "credentials": {"account_sid": "env:A_SID", "auth_token": "file:/nowhere/token"},
            },
        }
    }
    set_up = runner.invoke(cli, ["tenants", "set", "acme", "-", "--database", sqlite_url], input=json.dumps(tenant))
    assert set_up.exit_code == 0, set_up.output
    monkeypatch.setenv("A_SID", "a-very-secret-sid")
    shown = runner.invoke(cli, ["doctor", "--json", "--database", sqlite_url])
    (check,) = (each for each in json.loads(shown.stdout)["checks"] if each["name"] == "credentials")
    assert (shown.exit_code, check["ok"]) == (0, True)
    assert "tenant acme, email: env:NO_SUCH_KEY leads nowhere" in check["detail"]
    assert "file:/nowhere/token cannot be read" in check["detail"]
    assert "a-very-secret-sid" not in shown.stdout


def test_every_problem_and_every_advice_says_what_to_do(sqlite_url: str) -> None:
    runner = CliRunner()
    runner.invoke(cli, ["migrate", "--database", sqlite_url])
    file = Path(sqlite_url.removeprefix("sqlite:///"))
    file.chmod(0o644)
    Path(f"{file}.spool").mkdir(exist_ok=True)
    report = json.loads(runner.invoke(cli, ["doctor", "--json", "--database", sqlite_url]).stdout)
    told = [each for each in report["checks"] if not each["ok"] or each["detail"].startswith("warning: ")]
    assert "mode" in {each["name"] for each in told}
    assert [each for each in told if not each["detail"].endswith((".", ")"))] == []
