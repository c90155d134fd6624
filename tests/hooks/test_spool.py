import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pillarbox.hooks import pickup, spool

KILLED_WRITER = """
import sys
from pillarbox.hooks import pickup, spool
number = 0
while True:
    slot = spool.lock(sys.argv[1], "session:s", seconds=5)
    slot.append({"v": 1, "at": 1.0, "key": f"{sys.argv[2]}-{number}", "session_id": "s", "native_session_id": None,
                 "agent": None, "event_type": "tool_use", "payload": {"text": "x" * 50_000}})
    slot.close()
    print(number, flush=True)
    number += 1
"""


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "spool")


def record(key: str, *, session: str = "s", at: float = 1.0, **payload: object) -> dict[str, Any]:
    named = {"session_id": session, "native_session_id": None, "agent": None}
    return {"v": 1, "at": at, "key": key, **named, "event_type": "tool_use", "payload": payload}


def add(folder: str, *records: dict[str, Any]) -> None:
    for each in records:
        slot = spool.lock(folder, f"session:{each['session_id']}", seconds=5)
        assert slot
        slot.append(each)
        slot.close()


def keys(batch: pickup.Batch) -> list[str]:
    return [each["key"] for each in batch.records]


def take_all(folder: str) -> list[str]:
    taken = []
    for batch in pickup.take(folder):
        taken += keys(batch)
        batch.done()
    return taken


def only_file(folder: str) -> Path:
    (file,) = Path(folder).glob("*.jsonl")
    return file


def test_events_are_taken_in_order_and_leave_nothing_behind(folder: str) -> None:
    add(folder, record("a", text="ü\n\0"), record("b"), record("c"))
    assert only_file(folder).stat().st_mode & 0o777 == 0o600
    assert Path(folder).stat().st_mode & 0o777 == 0o700
    (batch,) = pickup.take(folder)
    assert batch.records[0] == record("a", text="ü\n\0")
    assert take_all(folder) == ["a", "b", "c"]
    assert list(Path(folder).iterdir()) == []
    assert take_all(folder) == []


def test_the_session_that_waits_longest_comes_first(folder: str) -> None:
    add(folder, record("b", session="young", at=20.0), record("a", session="old", at=10.0))
    add(folder, record("d", session="old", at=40.0), record("c", session="other", at=30.0))
    assert take_all(folder) == ["a", "d", "b", "c"]


def test_events_that_were_not_stored_stay(folder: str) -> None:
    add(folder, record("a"), record("b", session="other"))
    taken = []
    for batch in pickup.take(folder):
        taken += keys(batch)
        if keys(batch) == ["b"]:
            batch.done()
    assert sorted(taken) == ["a", "b"]
    assert take_all(folder) == ["a"]


def test_a_large_spool_is_taken_in_pieces(folder: str) -> None:
    add(folder, record("0"))
    with only_file(folder).open("ab") as file:
        file.writelines(spool.line_of(record(str(number))) for number in range(1, 1201))
    sizes = []
    for batch in pickup.take(folder):
        sizes.append(len(batch.records))
        assert only_file(folder).exists()
        batch.done()
    assert sizes == [500, 500, 201]
    assert list(Path(folder).iterdir()) == []


def test_pieces_are_small_in_bytes_too(folder: str) -> None:
    for number in range(11):
        add(folder, record(str(number), text="x" * 1_000_000))
    sizes = []
    for batch in pickup.take(folder):
        sizes.append(len(batch.records))
        batch.done()
    assert sizes == [5, 5, 1]


def test_the_rest_of_a_large_spool_stays_when_a_piece_cannot_be_stored(folder: str) -> None:
    add(folder, record("0"))
    with only_file(folder).open("ab") as file:
        file.writelines(spool.line_of(record(str(number))) for number in range(1, 700))
    for batch in pickup.take(folder):
        if len(batch.records) == 500:
            batch.done()
    assert take_all(folder) == [str(number) for number in range(700)]


@pytest.mark.parametrize("torn", [b'{"v":1,"at":1.0,"ke', b"{", b"\xff\xfe\0", b"[" * 100_000])
def test_a_torn_line_is_set_aside_and_never_glued_to_the_next(folder: str, torn: bytes) -> None:
    add(folder, record("a"))
    file = only_file(folder)
    with file.open("ab") as stream:
        stream.write(torn)
    add(folder, record("b"))
    assert take_all(folder) == ["a", "b"]
    (broken,) = Path(folder).iterdir()
    assert broken.name == file.name + ".broken"
    assert broken.read_bytes() == torn + b"\n"
    assert broken.stat().st_mode & 0o777 == 0o600
    assert take_all(folder) == []


def test_a_torn_line_at_the_end_is_kept_too(folder: str) -> None:
    add(folder, record("a"))
    with only_file(folder).open("ab") as stream:
        stream.write(b'{"v":1')
    assert take_all(folder) == ["a"]
    (broken,) = Path(folder).iterdir()
    assert broken.read_bytes() == b'{"v":1\n'


@pytest.mark.parametrize(
    "change", [{"v": 2}, {"key": None}, {"payload": []}, {"session_id": None}, {"event_type": 7}, {"at": "now"}]
)
def test_a_line_that_is_no_event_does_not_stop_the_others(folder: str, change: dict[str, object]) -> None:
    add(folder, record("a"))
    with only_file(folder).open("ab") as stream:
        stream.write(spool.line_of(record("b") | change))
    add(folder, record("c"))
    assert take_all(folder) == ["a", "c"]
    (broken,) = Path(folder).iterdir()
    assert json.loads(broken.read_bytes()) == record("b") | change


def test_a_file_that_a_receiver_holds_is_left_for_later(folder: str) -> None:
    add(folder, record("a"), record("b", session="other"))
    slot = spool.lock(folder, "session:s", seconds=0)
    assert slot
    assert take_all(folder) == ["b"]
    slot.close()
    assert take_all(folder) == ["a"]


def test_a_session_is_held_while_its_events_are_being_stored(folder: str) -> None:
    add(folder, record("a"))
    taking = pickup.take(folder)
    batch = next(taking)
    assert spool.lock(folder, "session:s", seconds=0) is None
    batch.done()
    assert list(taking) == []
    slot = spool.lock(folder, "session:s", seconds=0)
    assert slot
    assert not slot.has_events()
    slot.close()


def test_giving_up_halfway_lets_go_of_the_file(folder: str) -> None:
    add(folder, record("a"))
    taking = pickup.take(folder)
    next(taking)
    taking.close()  # type: ignore[attr-defined]
    assert take_all(folder) == ["a"]


def test_empty_files_of_receivers_that_died_are_removed(folder: str) -> None:
    slot = spool.lock(folder, "session:s", seconds=0)
    assert slot
    slot.close()
    assert only_file(folder).stat().st_size == 0
    assert take_all(folder) == []
    assert list(Path(folder).iterdir()) == []


def test_what_was_put_aside_comes_behind_the_file_and_before_what_follows(folder: str) -> None:
    add(folder, record("a"))
    slot = spool.lock(folder, "session:s", seconds=0)
    assert slot
    spool.put_aside(folder, "session:s", record("b"))
    spool.put_aside(folder, "session:s", record("c"))
    slot.append(record("d"))
    spool.put_aside(folder, "session:s", record("e"))
    slot.close()
    assert take_all(folder) == ["a", "b", "c", "d", "e"]
    assert list(Path(folder).iterdir()) == []


def test_an_event_put_aside_alone_is_waiting_and_is_taken(folder: str) -> None:
    assert not spool.is_waiting(folder, "session:s")
    spool.put_aside(folder, "session:s", record("a"))
    assert spool.is_waiting(folder, "session:s")
    assert take_all(folder) == ["a"]
    assert not spool.is_waiting(folder, "session:s")


def test_an_event_put_aside_while_the_file_is_being_taken_is_taken_with_it(folder: str) -> None:
    add(folder, record("a"))
    taken: list[str] = []
    for batch in pickup.take(folder):
        if not taken:
            spool.put_aside(folder, "session:s", record("b"))
        taken += keys(batch)
        batch.done()
    assert taken == ["a", "b"]


def test_a_draft_is_left_to_its_writer_until_that_must_be_dead(folder: str) -> None:
    spool.put_aside(folder, "session:s", record("a"))
    (aside,) = Path(folder).iterdir()
    (whole,) = aside.iterdir()
    draft = whole.rename(aside / f".{whole.name}")
    assert take_all(folder) == []
    assert draft.exists()
    os.utime(draft, (time.time() - 3600, time.time() - 3600))
    assert take_all(folder) == ["a"]
    assert list(Path(folder).iterdir()) == []


def test_a_file_that_cannot_be_opened_does_not_stop_the_others(folder: str) -> None:
    add(folder, record("a"))
    (Path(folder) / "0000.jsonl").symlink_to("/etc/hostname")
    taken: list[str] = []
    with pytest.raises(OSError, match="0000"):  # noqa: PT012 - it is raised at the end
        for batch in pickup.take(folder):
            taken += keys(batch)
            batch.done()
    assert taken == ["a"]


def test_writers_and_the_daemon_at_once_lose_nothing_and_keep_the_order(folder: str) -> None:
    def write(session: str) -> None:
        for number in range(60):
            each = record(f"{session}-{number}", session=session)
            slot = spool.lock(folder, f"session:{session}", seconds=0.002)
            if slot is None:
                spool.put_aside(folder, f"session:{session}", each)
            else:
                slot.append(each)
                slot.close()

    sessions = ["a", "b", "c"]
    writers = [threading.Thread(target=write, args=[session]) for session in sessions]
    for writer in writers:
        writer.start()
    taken: list[str] = []
    while any(writer.is_alive() for writer in writers):
        taken += take_all(folder)
    taken += take_all(folder)
    for session in sessions:
        mine = [key for key in taken if key.startswith(session)]
        assert mine == [f"{session}-{number}" for number in range(60)]
    assert list(Path(folder).iterdir()) == []


def test_a_writer_killed_at_any_moment_spoils_no_event_but_its_own(folder: str) -> None:
    expected = []
    for life in range(6):
        command = [sys.executable, "-c", KILLED_WRITER, folder, str(life)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout
            written = [next(writer.stdout) for _ in range(3 + life)]
            writer.kill()
            written += list(writer.stdout)
        expected += [f"{life}-{int(number)}" for number in written if number.endswith("\n")]
    taken = take_all(folder)
    assert [key for key in taken if key in set(expected)] == expected
    assert len(set(taken)) == len(taken)
    assert len(taken) <= len(expected) + 6


def test_the_spool_is_beside_an_sqlite_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    beside = f"{tmp_path.resolve()}/x.db.spool"
    assert spool.default_spool_dir(f"sqlite:///{tmp_path}/x.db") == beside
    assert spool.default_spool_dir("sqlite:///x.db") == beside


def test_the_spool_of_a_server_is_in_the_users_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert spool.default_spool_dir("postgresql://h/d") == "/home/me/.local/state/pillarbox/spool/h_d"
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert spool.default_spool_dir("postgresql://h/d") == "/home/me/.local/state/pillarbox/spool/h_d"
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert spool.default_spool_dir("postgresql://me:secret@h:5/d?x=y") == "/state/pillarbox/spool/h_5_d"
    assert spool.default_spool_dir("sqlite:///:memory:") == "/state/pillarbox/spool/__memory_"
