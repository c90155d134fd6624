"""What the spool does so that nothing in it is lost, spoiled or put out of order."""

import os
import resource
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pillarbox.hooks import pickup, spool
from tests.hooks.receivers import HOOK, hook, spooled, spooled_tools, tool
from tests.servers.daemon import SECONDS, environment


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return str(tmp_path / "spool")


def record(key: str, *, session: str | None = "s", native: str | None = None) -> dict[str, Any]:
    named = {"session_id": session, "native_session_id": native, "agent": None}
    return {"v": 1, "at": 1.0, "key": key, **named, "event_type": "tool_use", "payload": {}}


def add(folder: str, *records: dict[str, Any]) -> None:
    """As a receiver does that finds no database."""
    for each in records:
        slot = spool.lock(folder, spool.key_of(folder, spool.keys_of(each)), seconds=5)
        assert slot
        slot.append(each)
        slot.close()


def take_all(folder: str) -> list[str]:
    taken = []
    for batch in pickup.take(folder):
        taken += [each["key"] for each in batch.records]
        batch.done()
    return taken


@pytest.mark.parametrize("how", ["append", "aside"])
def test_an_event_and_its_name_are_on_the_disk_before_the_agent_goes_on(
    folder: str, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    synced: dict[int, int] = {}
    really = os.fsync

    def fsync(fd: int) -> None:
        found = os.fstat(fd)
        synced[found.st_ino] = found.st_size
        really(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    if how == "append":
        add(folder, record("a"))
        (file,) = Path(folder).iterdir()
    else:
        spool.put_aside(folder, "session:s", record("a"))
        (aside,) = Path(folder).iterdir()
        (file,) = aside.iterdir()
    for path in (file, *file.parents):
        if path == Path(folder).parent.parent:
            break
        assert path.stat().st_ino in synced
    assert synced[file.stat().st_ino] == file.stat().st_size > 0


def test_an_event_that_does_not_fit_leaves_no_piece_of_itself(folder: str) -> None:
    hook("--database", "sqlite:///gone.db", "--spool-dir", folder, event=tool(1), session="s")
    (file,) = Path(folder).iterdir()
    before = file.read_bytes()
    most = len(before) + 10
    done = subprocess.run(
        [*HOOK, "--database", "sqlite:///gone.db", "--spool-dir", folder],
        input=b'{"hook_event_name": "PreToolUse", "tool_name": "%s"}' % (b"x" * 1000),
        env=environment({}, {"PILLARBOX_SESSION": "s"}),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0
    assert file.read_bytes() == before
    hook("--database", "sqlite:///gone.db", "--spool-dir", folder, event=tool(2), session="s")
    assert spooled_tools(folder) == ["tool-1", "tool-2"]
    assert list(Path(folder).glob("*.broken")) == []


def test_the_order_does_not_hang_on_the_clock(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns()
    for key, back in (("a", 0), ("b", 3600), ("c", 3500)):
        monkeypatch.setattr(time, "time_ns", lambda back=back: now - back * 10**9)
        monkeypatch.setattr(time, "time", lambda back=back: now / 1e9 - back)
        spool.put_aside(folder, "session:s", record(key))
    assert take_all(folder) == ["a", "b", "c"]


def test_a_session_of_two_names_waits_in_one_file(folder: str) -> None:
    theirs: dict[str, str | None] = {"session": None, "native": "n"}
    add(folder, record("a", native="n"), record("b", **theirs), record("c"), record("d", **theirs))
    add(folder, record("e", native="m"), record("f", session=None, native="m"), record("g", native="n"))
    assert take_all(folder) == ["a", "b", "c", "d", "e", "f", "g"]
    assert list(Path(folder).iterdir()) == []


def test_a_session_first_called_by_its_agents_name_waits_in_one_file_too(folder: str) -> None:
    theirs: dict[str, str | None] = {"session": None, "native": "n"}
    add(folder, record("a", **theirs), record("b", native="n"), record("c"), record("d", native="m"))
    add(folder, record("e", session=None, native="m"), record("f", **theirs), record("g"))
    assert take_all(folder) == ["a", "b", "c", "d", "e", "f", "g"]
    assert list(Path(folder).iterdir()) == []


def test_a_session_of_two_names_keeps_its_order_through_a_locked_file(folder: str) -> None:
    slot = spool.lock(folder, "session:s", seconds=0)
    assert slot
    for key, session in (("a", "s"), ("b", None), ("c", "s"), ("d", None)):
        each = record(key, session=session, native="n")
        spool.put_aside(folder, spool.key_of(folder, spool.keys_of(each)), each)
    slot.close()
    assert take_all(folder) == ["a", "b", "c", "d"]


def test_an_alias_is_forgotten_when_nothing_waits_under_it(folder: str) -> None:
    add(folder, record("a", native="n"))
    assert spool.key_of(folder, ["native:n"]) == "session:s"
    assert take_all(folder) == ["a"]
    assert spool.key_of(folder, ["native:n"]) == "native:n"
    assert list(Path(folder).iterdir()) == []


def test_an_agent_does_not_wait_for_a_file_that_is_being_picked_up(folder: str) -> None:
    add(folder, record("a"))
    slot = spool.lock(folder, "session:s", seconds=0)
    assert slot
    before = time.monotonic()
    assert spool.lock(folder, "session:s", seconds=SECONDS) is None
    assert time.monotonic() - before < SECONDS / 2
    slot.close()


def test_broken_lines_are_kept_once_however_often_their_file_is_read(folder: str) -> None:
    add(folder, record("a"))
    (file,) = Path(folder).iterdir()
    with file.open("ab") as stream:
        stream.write(b"{torn\n")
        stream.writelines(spool.line_of(record(str(number))) for number in range(600))
    for _ in range(3):
        for batch in pickup.take(folder):
            if len(batch.records) == 500:
                batch.done()
    assert Path(f"{file}.broken").read_bytes() == b"{torn\n"


def test_pipes_and_folders_among_the_files_are_passed_over(folder: str) -> None:
    add(folder, record("a"))
    os.mkfifo(Path(folder) / "00.jsonl")
    (Path(folder) / "11.jsonl").mkdir()
    spool.put_aside(folder, "session:s", record("b"))
    (aside,) = Path(folder).glob("*.aside")
    os.mkfifo(aside / "00")
    taken: list[str] = []
    taking = threading.Thread(target=lambda: taken.extend(take_all(folder)), daemon=True)
    taking.start()
    taking.join(SECONDS)
    assert taken == ["a", "b"]
    assert pickup.waiting(folder)[2] == 0


def test_an_event_is_kept_although_its_file_is_a_pipe(folder: str) -> None:
    Path(folder).mkdir()
    os.mkfifo(spool.path_of(folder, "session:s"))
    for number in (1, 2):
        hook("--database", "sqlite:///gone.db", "--spool-dir", folder, event=tool(number), session="s")
    os.unlink(spool.path_of(folder, "session:s"))
    assert spooled_tools(folder) == ["tool-1", "tool-2"]


def test_without_a_home_the_spool_of_a_server_is_where_everybody_may_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    expected = f"/var/tmp/pillarbox-{os.geteuid()}/pillarbox/spool/h_d"  # noqa: S108
    for home in ("~", "relative", "/", ""):
        monkeypatch.setenv("HOME", home)
        assert spool.default_spool_dir("postgresql://h/d") == expected


def test_a_folder_that_others_may_change_is_no_spool_for_the_homeless(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", "")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(spool, "SHARED", str(tmp_path / "state"))
    mine = tmp_path / f"state-{os.geteuid()}"
    assert spool.default_spool_dir("postgresql://h/d") == f"{mine}/pillarbox/spool/h_d"
    mine.mkdir(0o700)
    assert spool.default_spool_dir("postgresql://h/d") == f"{mine}/pillarbox/spool/h_d"
    mine.chmod(0o777)
    unusable = spool.default_spool_dir("postgresql://h/d")
    assert not unusable.startswith(str(tmp_path))
    with pytest.raises(OSError, match="Not a directory"):
        spool.lock(unusable, "session:s", seconds=0)
    mine.rmdir()
    mine.symlink_to(tmp_path)
    assert spool.default_spool_dir("postgresql://h/d") == unusable


def test_a_settings_file_that_is_a_pipe_is_not_waited_for(folder: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pillarbox.toml")
    hook("--database", "sqlite:///gone.db", event=tool(1), session="s")
    assert [each["session_id"] for each in spooled(tmp_path / "gone.db.spool")] == ["s"]
