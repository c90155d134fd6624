"""SQLite files of other programs: no command changes a byte of them, not even one that only looks."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import click.testing
import pytest

from pillarbox.box import Pillarbox
from pillarbox.cli.main import cli


@pytest.fixture(params=["delete", "wal"])
def theirs(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Another program's database, with or without a log."""
    file = tmp_path / "theirs.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA journal_mode = {request.param}")
        connection.execute("CREATE TABLE invoice (id INTEGER PRIMARY KEY)")
        connection.commit()
    return file


@pytest.mark.parametrize("command", ["doctor", "migrate", "status", "inbound post s1 hello", "backup copy.db", "serve"])
def test_a_command_on_another_programs_file_says_so_and_leaves_everything_as_it_was(
    theirs: Path, tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = theirs.read_bytes()
    done = click.testing.CliRunner().invoke(cli, [*command.split(), "--database", f"sqlite:///{theirs}"])
    assert done.exit_code == (1 if command == "doctor" else 2)
    assert f"{theirs} belongs to another program" in done.output
    assert "--database" in done.output
    assert theirs.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["theirs.db"]


def test_an_application_may_share_its_own_file_with_a_box_that_it_opens(theirs: Path) -> None:
    async def set_up() -> None:
        async with Pillarbox.open(f"sqlite:///{theirs}"):
            pass

    asyncio.run(set_up())
    done = click.testing.CliRunner().invoke(cli, ["status", "--database", f"sqlite:///{theirs}"])
    assert (done.exit_code, "belongs to another program" in done.output) == (0, False)
