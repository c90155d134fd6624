"""`pillarbox backup` on PostgreSQL by the real `pg_dump`, and what a database restored from it will do and takes over."""

import asyncio
import json
import stat
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import click.testing
import psycopg
import pytest

from pillarbox.cli.main import cli
from tests.servers.daemon import key_for
from tests.servers.postgres import Postgres, find_binaries
from tests.troubles import aftermath


def run(*arguments: str, stdin: str | None = None) -> click.testing.Result:
    return click.testing.CliRunner().invoke(cli, list(arguments), input=stdin)


@pytest.fixture(autouse=True)
def tools(monkeypatch: pytest.MonkeyPatch, postgres_url: str) -> None:
    """The tools of the same release as the server, and the key that everybody on it has."""
    monkeypatch.setenv("PATH", str(find_binaries()), prepend=":")
    for name, value in key_for(postgres_url).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def new_url(postgres: Postgres, tools: None) -> Iterator[str]:
    """A database with nothing in it, not even tables."""
    name = f"pillarbox_{uuid.uuid4().hex}"
    subprocess.run(["createdb", f"--maintenance-db={postgres.url}", name], check=True)
    yield postgres.url_of(name)
    postgres.drop_database(name)


def names_of(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute("SELECT contact FROM message_opt_out ORDER BY contact")]


async def test_a_dump_restored_beside_the_old_database_says_what_it_resends_and_takes_over_what_was_said(
    postgres_url: str, new_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "monday.dump"

    def back_up() -> None:
        made = run("backup", str(file), "--database", postgres_url, "--json")
        assert made.exit_code == 0, made.output
        assert json.loads(made.stdout) == {"file": str(file), "bytes": size_of(file), "key_file": None}

    sent = await aftermath.fill(postgres_url, back_up)
    assert [path.name for path in listed(tmp_path)] == ["monday.dump"]
    assert mode_of(file) == 0o600
    restore(new_url, file)
    assert (await asyncio.to_thread(run, "migrate", "--database", new_url)).exit_code == 0
    before = names_of(new_url)
    looked = run("restore", "--database", new_url, "--old", postgres_url, "--preview")
    assert looked.exit_code == 0, looked.output
    assert "outbound\tready\t3\t" in looked.stdout
    assert "2 opt-outs came in after the backup and are taken over." in looked.stderr
    assert names_of(new_url) == before
    done = run("restore", "--database", new_url, "--old", postgres_url, "--yes", "--json")
    answer = json.loads(done.stdout)
    assert (answer["since"], answer["taken_over"]) == (aftermath.SINCE, aftermath.TAKEN_OVER)
    assert run("restore", "--database", new_url, "--old", postgres_url, stdin="n\n").exit_code == 4
    await aftermath.check_restored(new_url, sent)


def test_a_database_that_went_back_in_time_says_alone_what_it_will_send(postgres_url: str) -> None:
    run("sessions", "open", "s1", "--url", "http://127.0.0.1:9/", "--database", postgres_url)
    run("inbound", "post", "s1", "hello", "--database", postgres_url)
    looked = run("restore", "--database", postgres_url)
    assert (looked.exit_code, "inbound\tpending\t1\t" in looked.stdout) == (0, True)
    assert json.loads(run("restore", "--database", postgres_url, "--json").stdout)["since"] is None


def test_a_backup_that_fails_leaves_nothing_and_overwrites_nothing(postgres_url: str, tmp_path: Path) -> None:
    nowhere = postgres_url.rpartition("/")[0] + "/nowhere"
    failed = run("backup", f"{tmp_path}/copy.dump", "--database", nowhere)
    assert (failed.exit_code, "nowhere" in failed.stderr, failed.stderr.count("\n")) == (1, True, 1)
    assert listed(tmp_path) == []
    (tmp_path / "there.dump").write_text("precious")
    assert run("backup", f"{tmp_path}/there.dump", "--database", postgres_url).exit_code == 2
    assert (tmp_path / "there.dump").read_text() == "precious"


def test_without_tools_and_with_a_wrong_address_it_says_what_to_do(
    postgres_url: str, new_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments, code, said in (
        (("restore", "monday.dump", "--database", postgres_url), 4, "pg_restore --dbname=NEW monday.dump"),
        (("restore", "--database", postgres_url, "--old", postgres_url), 2, "is the restored database itself"),
        (("restore", "--database", postgres_url, "--old", "sqlite:///x.db"), 2, "must be postgresql://"),
        (("restore", "--database", new_url), 1, "migrate` on it first"),
        (("restore", "--database", "sqlite:///x.db", "--old", postgres_url), 2, "is for PostgreSQL"),
        (("restore", "--database", "sqlite:///x.db"), 2, "name a backup"),
        (("restore", "--database", "mysql://me@db.example.com/box"), 2, "must be postgresql://"),
        (("backup", "copy.dump", "--database", "cockroachdb://me@db.example.com/box"), 2, "tools of their own"),
    ):
        refused = run(*arguments)
        assert (refused.exit_code, said in refused.stderr, refused.stderr) == (code, True, refused.stderr)
    monkeypatch.setenv("PATH", str(tmp_path))
    url = "postgresql://me:secret@db.example.com/box?pooler=session"
    refused = run("backup", f"{tmp_path}/copy.dump", "--database", url)
    assert refused.exit_code == 4
    assert f"pg_dump --format=custom --file={tmp_path}/copy.dump 'postgresql://me@db.example.com/box'" in refused.stderr
    assert "secret" not in refused.output


def test_nobody_can_read_the_password_among_the_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = tmp_path / "bin" / "pg_dump"
    stand_in.parent.mkdir()
    stand_in.write_text(
        '#!/bin/sh\nfor each; do case $each in --file=*) echo "$* $PGPASSWORD" >"${each#--file=}" ;; esac; done\n'
    )
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", str(stand_in.parent))
    made = run(
        "backup", f"{tmp_path}/said", "--database", "postgresql://me:s%40fe@db.example.com:1/box?sslmode=require"
    )
    assert made.exit_code == 0, made.output
    arguments, _, password = (tmp_path / "said").read_text().strip().rpartition(" ")
    assert password == "s@fe"
    assert arguments.endswith("--dbname=postgresql://me@db.example.com:1/box?sslmode=require")
    assert "fe@" not in arguments


def test_an_address_with_options_and_a_password_of_its_key_is_understood(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = "options=-c%20work_mem%3D8MB&sslpassword=s%3Dcret"
    url = f"{postgres_url}{'&' if '?' in postgres_url else '?'}{more}"
    made = run("backup", f"{tmp_path}/monday.dump", "--database", url)
    assert made.exit_code == 0, made.output
    refused = run("backup", f"{tmp_path}/tuesday.dump", "--database", f"{url}&service=mine")
    assert (refused.exit_code, "service's file" in refused.stderr, "cret" in refused.output) == (2, True, False)
    monkeypatch.setenv("PATH", str(tmp_path))
    shown = run("backup", f"{tmp_path}/tuesday.dump", "--database", url)
    assert (shown.exit_code, "options=-c%20work_mem%3D8MB'" in shown.stderr, "cret" in shown.output) == (4, True, False)


def test_the_old_database_can_be_named_where_nobody_else_reads_it(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PILLARBOX_OLD_DATABASE", postgres_url)
    refused = run("restore", "--database", postgres_url)
    assert (refused.exit_code, "is the restored database itself" in refused.stderr) == (2, True)


def test_a_server_that_breaks_off_is_not_said_to_be_away(postgres_url: str, new_url: str) -> None:
    assert run("migrate", "--database", new_url).exit_code == 0
    hasty = f"{new_url}{'&' if '?' in new_url else '?'}options=-c%20lock_timeout%3D50"
    with psycopg.connect(new_url) as blocker:
        blocker.execute("LOCK TABLE inbound_queue")
        looked = run("restore", "--database", hasty, "--old", postgres_url)
    assert (looked.exit_code, "did not finish (LockNotAvailable)" in looked.stderr) == (1, True)
    away = run("restore", "--database", "postgresql://me@127.0.0.1:1/box")
    assert (away.exit_code, "cannot be reached at 127.0.0.1:1" in away.stderr) == (1, True)


def restore(url: str, file: Path) -> None:
    subprocess.run(["pg_restore", "--exit-on-error", f"--dbname={url}", str(file)], check=True)


def listed(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def size_of(file: Path) -> int:
    return file.stat().st_size


def mode_of(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)
