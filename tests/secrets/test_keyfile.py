import base64
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pillarbox.errors import SettingsError, Unavailable
from pillarbox.secrets import load_key, open_sealer

KEY = bytes(range(32))


def test_the_setting_is_the_key_and_no_file_is_made(tmp_path: Path) -> None:
    setting = base64.b64encode(KEY).decode()
    assert load_key(setting, sqlite_file=str(tmp_path / "app.db")) == KEY
    assert load_key(f"{setting}\n", sqlite_file=None) == KEY
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "setting", ["", "canary", "AAAA", base64.b64encode(bytes(31)).decode(), "é" * 44, "A" * 44 + "!"]
)
def test_a_setting_that_is_no_key_is_named_and_not_quoted(setting: str) -> None:
    with pytest.raises(SettingsError, match=r"secrets\.key must be 32 bytes in base64; make one with") as caught:
        load_key(setting, sqlite_file=":memory:")
    assert not setting or setting not in str(caught.value)


def test_on_postgresql_only_what_needs_the_key_asks_for_the_setting() -> None:
    sealer = open_sealer(None, sqlite_file=None)
    with pytest.raises(Unavailable, match=r"every node needs the same secrets\.key; make one with `openssl"):
        sealer.seal(b"secret", bound_to=())


def test_the_command_that_makes_a_key_makes_one() -> None:
    with pytest.raises(Unavailable) as caught:
        open_sealer(None, sqlite_file=None).token(())
    command = re.findall("`(.*)`", str(caught.value))[0].split()
    made = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    sealer = open_sealer(made, sqlite_file=None)
    assert sealer.read_token(sealer.token(("acme",))) == ("acme",)


def test_sqlite_gets_a_file_of_its_own_that_only_its_owner_reads(tmp_path: Path) -> None:
    key = load_key(None, sqlite_file=str(tmp_path / "app.db"))
    assert [file.name for file in tmp_path.iterdir()] == ["app.db.key"]
    assert stat.S_IMODE((tmp_path / "app.db.key").stat().st_mode) == 0o600
    assert load_key(None, sqlite_file=str(tmp_path / "app.db")) == key
    assert load_key(None, sqlite_file=str(tmp_path / "other.db")) != key


def test_the_file_holds_what_the_setting_takes(tmp_path: Path) -> None:
    key = load_key(None, sqlite_file=str(tmp_path / "app.db"))
    assert load_key((tmp_path / "app.db.key").read_text(), sqlite_file=None) == key


def test_memory_gets_a_key_that_nobody_keeps() -> None:
    assert load_key(None, sqlite_file=":memory:") != load_key(None, sqlite_file=":memory:")


def test_processes_that_start_together_agree_on_one_key(tmp_path: Path) -> None:
    database = str(tmp_path / "app.db")
    program = (
        "import sys; from pillarbox.secrets import load_key; print('ready', flush=True); sys.stdin.readline();"
        f" print(load_key(None, sqlite_file={database!r}).hex())"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    keys = {process.communicate(timeout=60)[0] for process in started}
    assert len(keys) == 1
    assert len(keys.pop().strip()) == 64
    assert [file.name for file in tmp_path.iterdir()] == ["app.db.key"]


def test_a_file_that_others_can_read_is_used_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    key = load_key(None, sqlite_file=str(tmp_path / "app.db"))
    assert caplog.text == ""
    (tmp_path / "app.db.key").chmod(0o644)
    assert load_key(None, sqlite_file=str(tmp_path / "app.db")) == key
    assert "chmod 600" in caplog.text
    assert (tmp_path / "app.db.key").read_text().strip() not in caplog.text


@pytest.mark.parametrize("content", [b"", b"canary", b"\xff\xfe", base64.b64encode(bytes(16))])
def test_a_damaged_file_stops_the_start_and_is_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "app.db.key"
    file.write_bytes(content)
    with pytest.raises(SettingsError, match=r"app\.db\.key is damaged") as caught:
        load_key(None, sqlite_file=str(tmp_path / "app.db"))
    assert "canary" not in str(caught.value)
    assert file.read_bytes() == content


def test_a_folder_that_is_missing_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot be read or made \(No such file or directory\)"):
        load_key(None, sqlite_file=str(tmp_path / "missing" / "app.db"))


def test_a_key_file_that_cannot_be_read_is_told_in_a_sentence(tmp_path: Path) -> None:
    os.mkdir(tmp_path / "app.db.key")
    with pytest.raises(SettingsError, match="Is a directory"):
        load_key(None, sqlite_file=str(tmp_path / "app.db"))
