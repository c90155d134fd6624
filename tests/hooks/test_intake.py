import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pillarbox import Pillarbox
from pillarbox.errors import Unavailable
from pillarbox.hooks import pickup, spool
from pillarbox.hooks.intake import Intake, Spooled
from pillarbox.hooks.model import HookRecord
from pillarbox.hooks.store import headless_id, store
from pillarbox.sessions.model import SessionChange
from tests.hooks.receivers import locked, query


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PILLARBOX_HOOKS__SPOOL_DIR", str(tmp_path / "spool"))
    return str(tmp_path / "spool")


@pytest.fixture
async def box(database_url: str, folder: str) -> AsyncIterator[Pillarbox]:
    async with opened(database_url) as box:
        yield box


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Pillarbox]:
    async with Pillarbox.open(url) as box:
        yield box


def record(number: int, **change: Any) -> dict[str, Any]:
    named = {"session_id": "s", "native_session_id": None, "agent": None}
    event = {"event_type": "agent_stop", "payload": {"number": number}}
    return {"v": 1, "at": time.time(), "key": os.urandom(16).hex()} | named | event | change


def add(folder: str, *records: dict[str, Any]) -> None:
    for each in records:
        slot = spool.lock(folder, spool.keys_of(each)[0], seconds=5)
        assert slot
        slot.append(each)
        slot.close()


async def events(box: Pillarbox, session_id: str = "s") -> list[HookRecord]:
    return await box.hooks.list(session_id=session_id)


def broken_lines(folder: str) -> list[bytes]:
    return [line for file in Path(folder).glob("*.broken") for line in file.read_bytes().splitlines()]


UNSTORABLE: dict[str, dict[str, Any]] = {
    "half a character": {"payload": {"text": "\ud800"}},
    "half a character in a name": {"payload": {"\udfff": 1}},
    "NUL": {"payload": {"text": "a\0b"}},
    "a session that is no name": {"session_id": "bad\0"},
    "a long session": {"session_id": "x" * 201},
    "a long agent": {"agent": "x" * 101},
    "before all time": {"at": -5.0},
    "after all time": {"at": 1e300},
    "a long key": {"key": "k" * 65},
    "a long type": {"event_type": "x" * 300},
    "a huge number": {"payload": {"number": 2**80}},
}


async def test_events_that_cannot_be_stored_are_kept_and_stop_no_other(box: Pillarbox, folder: str) -> None:
    bad = [record(2, **change) for change in UNSTORABLE.values()]
    add(folder, record(1), *bad, record(3), record(4, session_id="other"))
    await box.hooks.pick_up()
    assert [event.payload for event in await events(box)] == [{"number": 1}, {"number": 3}]
    assert [event.payload for event in await events(box, "other")] == [{"number": 4}]
    assert sorted(broken_lines(folder)) == sorted(spool.line_of(each).rstrip() for each in bad)
    assert not pickup.waiting(folder)[0]
    await box.hooks.pick_up()
    assert len(broken_lines(folder)) == len(bad)


async def test_an_event_that_only_the_database_refuses_is_kept_and_stops_no_other(
    box: Pillarbox, folder: str, database_url: str
) -> None:
    refuse(database_url, "refused")
    bad = record(2, event_type="refused")
    add(folder, record(1), bad, record(3), record(4, session_id="other"))
    await box.hooks.pick_up()
    assert [event.payload["number"] for event in await events(box)] == [1, 3]
    assert [event.payload["number"] for event in await events(box, "other")] == [4]
    (line,) = broken_lines(folder)
    assert bad["key"].encode() in line
    assert not pickup.waiting(folder)[0]


def refuse(url: str, event_type: str) -> None:
    """Have the database refuse events of a type, as a check of its own would."""
    if spool.sqlite_path(url) is None:
        query(url, f"ALTER TABLE hook_outbox ADD CHECK (event_type <> '{event_type}')")
        return
    path = Path(spool.sqlite_path(url) or "")
    query(
        path,
        f"""CREATE TRIGGER refusal BEFORE INSERT ON hook_outbox WHEN NEW.event_type = '{event_type}'
            BEGIN SELECT RAISE(ABORT, 'refused'); END""",
    )


async def test_a_database_that_takes_no_event_at_all_costs_none(box: Pillarbox, folder: str, database_url: str) -> None:
    add(folder, record(1))
    path = spool.sqlite_path(database_url)
    target = database_url if path is None else Path(path)
    query(target, "ALTER TABLE hook_outbox RENAME TO elsewhere")
    with pytest.raises(Exception, match="hook_outbox"):
        await box.hooks.pick_up()
    assert broken_lines(folder) == []
    query(target, "ALTER TABLE elsewhere RENAME TO hook_outbox")
    await box.hooks.pick_up()
    assert [event.payload["number"] for event in await events(box)] == [1]


async def test_a_file_of_nothing_but_refused_events_goes(box: Pillarbox, folder: str) -> None:
    add(folder, record(1, at=-1.0), record(2, at=-1.0))
    assert await box.hooks.pick_up() is False
    assert await events(box) == []
    assert len(broken_lines(folder)) == 2
    assert not pickup.waiting(folder)[0]


async def test_events_keep_the_time_at_which_they_happened(box: Pillarbox, folder: str) -> None:
    now = time.time()
    add(folder, record(1, at=now - 3600), record(2, at=now + 3600))
    await box.hooks.pick_up()
    first, second = [event.created_at.timestamp() for event in await events(box)]
    assert abs(first - (now - 3600)) < 60
    assert abs(second - now) < 60


async def test_the_same_unknown_agent_session_is_opened_once_by_all(
    box: Pillarbox, folder: str, database_url: str
) -> None:
    spooled = record(1, session_id=None, native_session_id="n")
    add(folder, spooled)
    at_once = [record(number, session_id=None, native_session_id="n") for number in range(2, 8)]
    writing = (asyncio.to_thread(store, each, database_url, folder + "-other") for each in at_once)
    await asyncio.gather(box.hooks.pick_up(), *writing)
    (session,) = await box.sessions.list()
    assert (session.session_id, session.native_session_id) == (headless_id("n"), "n")
    assert {event.payload["number"] for event in await events(box, session.session_id)} == set(range(1, 8))


async def test_an_agent_session_that_changed_its_name_keeps_its_events(box: Pillarbox, folder: str) -> None:
    add(folder, record(1, session_id=None, native_session_id="n"))
    await box.hooks.pick_up()
    (session,) = await box.sessions.list()
    await box.sessions.change(session.session_id, SessionChange(native_session_id="m"))
    add(folder, record(2, session_id=None, native_session_id="n"))
    await box.hooks.pick_up()
    assert [event.payload["number"] for event in await events(box, session.session_id)] == [1, 2]


async def test_what_waits_in_the_spool_is_shown(box: Pillarbox, folder: str) -> None:
    intake = Intake(box.database, box.sessions, Path(folder))
    assert await intake.waiting() == Spooled(0, None, 0)
    add(folder, record(1, at=time.time() - 100), record(2), record(3, session_id="other", at=-1.0))
    spool.put_aside(folder, "session:third", record(4, session_id="third"))
    found = await intake.waiting()
    assert (found.files, found.broken) == (3, 0)
    assert found.oldest_age_seconds is not None
    add(folder, record(5, session_id="recent"))
    await intake.step()
    assert await intake.waiting() == Spooled(0, None, 1)


async def test_the_longest_wait_is_that_of_the_first_event(box: Pillarbox, folder: str) -> None:
    add(folder, record(1, at=time.time() - 100), record(2, session_id="other"), record(3))
    found = await Intake(box.database, box.sessions, Path(folder)).waiting()
    assert found.oldest_age_seconds is not None
    assert 100 <= found.oldest_age_seconds < 160
    assert await Intake(box.database, box.sessions, None).waiting() == Spooled()


async def test_events_wait_while_the_database_is_held(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PILLARBOX_DATABASE__BUSY_TIMEOUT_SECONDS", "0.1")
    file = tmp_path / "p.db"
    async with opened(f"sqlite:///{file}") as box:
        add(folder, record(1), record(2, session_id="other"))
        with locked(file), pytest.raises(Unavailable):
            await box.hooks.pick_up()
        assert broken_lines(folder) == []
        await box.hooks.pick_up()
        assert len(await events(box)) == len(await events(box, "other")) == 1


async def test_what_waits_in_the_spool_shows_in_the_status_and_the_checkup(box: Pillarbox, folder: str) -> None:
    assert (await box.hooks.status()).spooled == 0
    slot = spool.lock(folder, "session:s", seconds=1)
    assert slot is not None
    slot.append(record(1))
    slot.close()
    assert (await box.hooks.status()).spooled == 1
    (found,) = [finding for finding in await box.checkup() if finding.name == "hook spool"]
    assert found.ok
    assert found.detail.startswith("warning: 1 file")
