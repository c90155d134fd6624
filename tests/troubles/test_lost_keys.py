"""The key file beside an SQLite database that is gone, or that is another one's: it is said, and no other is made."""

import json
import shutil
from pathlib import Path

import click.testing
import pytest

from pillarbox.box import Pillarbox
from pillarbox.cli.main import cli
from pillarbox.errors import SettingsError


def run(file: Path, *arguments: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(cli, ["--database", f"sqlite:///{file}", *arguments])


def finding(file: Path) -> tuple[int, bool, str]:
    done = run(file, "doctor", "--json")
    (check,) = (each for each in json.loads(done.stdout)["checks"] if each["name"] == "secrets.key")
    return done.exit_code, check["ok"], check["detail"]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    file = tmp_path / "k.db"
    assert run(file, "sessions", "open", "s1", "--url", "http://127.0.0.1:9/").exit_code == 0
    assert finding(file) == (0, True, "there")
    return file


def test_a_key_file_that_is_gone_is_named_by_every_command_and_none_is_made_in_its_place(database: Path) -> None:
    key, saved = Path(f"{database}.key"), database.with_name("saved")
    key.rename(saved)
    for command in (("messages", "list"), ("status",), ("serve", "--port", "0", "--no-migrate")):
        refused = run(database, *command)
        assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
        assert f"{key} is missing; put back a copy of it" in refused.stderr
    code, ok, detail = finding(database)
    assert (code, ok) == (1, False)
    assert f"{key} is missing; put back a copy of it" in detail
    assert not key.exists()
    saved.rename(key)
    assert finding(database) == (0, True, "there")
    assert run(database, "status").exit_code == 0


def test_a_key_file_of_another_database_is_named_by_every_command_and_by_the_doctor(
    database: Path, tmp_path: Path
) -> None:
    other, key = tmp_path / "other.db", Path(f"{database}.key")
    assert run(other, "status").exit_code == 0
    shutil.copy(f"{other}.key", key)
    content = key.read_bytes()
    for command in (("messages", "list"), ("serve", "--port", "0", "--no-migrate")):
        refused = run(database, *command)
        assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
        assert f"{key} is not the one that this database was begun with; put back" in refused.stderr
    code, ok, detail = finding(database)
    assert (code, ok) == (1, False)
    assert f"{key} is not the one that this database was begun with; put back" in detail
    assert key.read_bytes() == content


async def test_a_key_that_was_set_and_is_another_is_named_as_the_setting(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/k.db"
    async with Pillarbox.open(url, settings={"secrets": {"key": "A" * 43 + "="}}):
        pass
    with pytest.raises(SettingsError, match=r"^secrets\.key is not the one that this database was begun with; set"):
        async with Pillarbox.open(url, settings={"secrets": {"key": "B" * 42 + "A="}}):
            pass
