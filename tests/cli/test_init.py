import re
import tomllib
from pathlib import Path

from click.testing import CliRunner, Result

from pillarbox.cli.main import cli
from pillarbox.settings import Settings, describe_settings, load_settings


def init(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["init", *arguments])


def test_it_writes_a_file_in_which_nothing_is_set(tmp_path: Path) -> None:
    assert init().exit_code == 0
    file = tmp_path / "pillarbox.toml"
    assert file.stat().st_mode & 0o077 == 0
    assert load_settings(file, {}) == Settings()


def test_every_setting_is_in_it_with_its_default(tmp_path: Path) -> None:
    init("--config", "mine.toml")
    text = (tmp_path / "mine.toml").read_text()
    for each in describe_settings():
        assert f"# {each.doc} (" in text, each.name
    known = re.sub(r"^#\[.*\]\n(?:#.*\n)*", "", text, flags=re.MULTILINE)
    uncommented = re.sub(r"^#(\w+ = .*)$", r"\1", known, flags=re.MULTILINE)
    values = tomllib.loads(uncommented)
    assert values["outbound"]["max_attempts"] == 5
    assert load_settings(None, {}, **values) == Settings()


def test_a_file_that_is_there_is_replaced_only_by_force(tmp_path: Path) -> None:
    file = tmp_path / "pillarbox.toml"
    file.write_text("[log]\nlevel = 'debug'\n")
    refused = init()
    assert (refused.exit_code, refused.stderr) == (4, "pillarbox.toml is there already; --force replaces it.\n")
    assert "debug" in file.read_text()
    assert init("--force", "--json").stdout == '{"file":"pillarbox.toml"}\n'
    assert load_settings(file, {}) == Settings()
    assert [path.name for path in tmp_path.iterdir()] == ["pillarbox.toml"]


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    failed = init("--config", str(tmp_path / "missing" / "pillarbox.toml"))
    assert failed.exit_code == 1
    assert "--config" in failed.stderr
