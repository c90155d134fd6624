"""A number, a name or a time that was damaged where a pipe keeps its order holds up nobody else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from pillarbox.box import Pillarbox
from pillarbox.engine import Lease, Room
from tests.troubles.test_damaged_neighbours import NUMBERS, Arrivals

STRANDS = {"inbound": "inbound_strand", "hooks": "hook_strand"}
ROWS = {"inbound": "inbound_queue", "hooks": "hook_outbox"}
PIPES = pytest.mark.parametrize("pipe", STRANDS)
LONG_AGO = "2020-01-01T00:00:00.000000Z"


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    """A database in which two sessions have the same waiting, the one that will be damaged first."""
    async with Pillarbox.open(f"sqlite:///{tmp_path}/pillarbox.db") as box:
        for name in ("bad", "well"):
            await box.sessions.open(session_id=name, target={"kind": "python", "name": "keep"})
            for n in NUMBERS:
                await box.inbound.enqueue(session_id=name, origin="test", content=f"{name} {n}")
                await box.hooks.post(name, "agent_stop", {"who": name, "n": n})
    return tmp_path / "pillarbox.db"


@pytest.fixture
async def box(file: Path) -> AsyncIterator[Pillarbox]:
    async with Pillarbox.open(f"sqlite:///{file}") as opened:
        yield opened


@pytest.fixture
def arrivals(box: Pillarbox) -> Arrivals:
    return Arrivals(box)


@contextmanager
def as_a_disk(file: Path, table: str) -> Iterator[apsw.Connection]:
    """A connection by which a table's rows are changed in one place: without its types, its constraints and its indexes."""
    connection = apsw.Connection(str(file))
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute("PRAGMA writable_schema = ON")
    kept = list(connection.execute("SELECT * FROM sqlite_schema WHERE tbl_name = ? AND sql IS NOT NULL", (table,)))
    connection.execute("DELETE FROM sqlite_schema WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL", (table,))
    for loose, strict in ((") STRICT, ", ") "), (") STRICT", ")"), (" NOT NULL", "")):
        connection.execute("UPDATE sqlite_schema SET sql = replace(sql, ?, ?) WHERE name = ?", (loose, strict, table))
    connection.execute("PRAGMA writable_schema = RESET")
    yield connection
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("DELETE FROM sqlite_schema WHERE type IN ('table', 'index') AND tbl_name = ?", (table,))
    connection.executemany("INSERT INTO sqlite_schema VALUES (?, ?, ?, ?, ?)", kept)
    connection.execute("PRAGMA writable_schema = RESET")
    connection.close()


def change(file: Path, table: str, change: str) -> None:
    with as_a_disk(file, table) as connection:
        connection.execute(f"UPDATE {table} SET {change} WHERE session_id = 'bad'")


async def assert_the_other_is_served(arrivals: Arrivals, pipe: str) -> None:
    await arrivals.all_delivered()
    contents, payloads = arrivals.of("well")
    assert (contents if pipe == "inbound" else [payload["n"] for payload in payloads if isinstance(payload, dict)]) == [
        f"well {n}" if pipe == "inbound" else n for n in NUMBERS
    ]


async def held_by_the_dead(box: Pillarbox, file: Path, pipe: str) -> None:
    lane = box.inbound.lane if pipe == "inbound" else box.hooks.lane
    lease = Lease("somebody", timedelta(seconds=30))
    held = await lane.claim(lease, room=Room.of(10, {}), now=box.database.clock.now())
    assert {strand.key for strand in held} == {"bad", "well"}
    connection = apsw.Connection(str(file))
    connection.execute(f"UPDATE {STRANDS[pipe]} SET lease_until = '{LONG_AGO}'")
    connection.close()


@PIPES
@pytest.mark.parametrize("how", ["X'C3' || session_id", "'!' || session_id"])
async def test_a_row_whose_session_cannot_be_read_keeps_no_other_from_being_rescued(
    box: Pillarbox, arrivals: Arrivals, file: Path, pipe: str, how: str
) -> None:
    await held_by_the_dead(box, file, pipe)
    change(file, ROWS[pipe], f"session_id = {how}")
    await assert_the_other_is_served(arrivals, pipe)


@PIPES
@pytest.mark.parametrize("column", ["head_seq", "token", "next_seq", "open_count"])
@pytest.mark.parametrize("value", ["NULL", "'x'", "0.5"])
async def test_a_session_whose_place_is_no_number_is_passed_over_and_told_of_once(
    arrivals: Arrivals, file: Path, caplog: pytest.LogCaptureFixture, pipe: str, column: str, value: str
) -> None:
    change(file, STRANDS[pipe], f"{column} = {value}")
    await assert_the_other_is_served(arrivals, pipe)
    told = [text for record in caplog.records if "a session is passed over" in (text := record.getMessage())]
    assert len(told) == 1
    assert "bad" in told[0]


@PIPES
async def test_who_has_one_place_alone_comes_to_those_behind_a_session_that_is_passed_over(
    box: Pillarbox, arrivals: Arrivals, file: Path, pipe: str
) -> None:
    change(file, STRANDS[pipe], "token = NULL")
    lane = box.inbound.lane if pipe == "inbound" else box.hooks.lane
    lease, now = Lease("somebody", timedelta(seconds=30)), box.database.clock.now()
    assert await lane.claim(lease, room=Room.of(1, {}), now=now) == []
    assert [strand.key for strand in await lane.claim(lease, room=Room.of(1, {}), now=now)] == ["well"]


@PIPES
@pytest.mark.parametrize("column", ["due_at", "lease_until"])
@pytest.mark.parametrize("time", ["X'C3' || '026-01-01T00:00:00.000000Z'", "'2026-01-01T00:00:00.00000 Z'"])
async def test_what_is_due_next_is_told_of_those_whose_times_can_be_read(
    box: Pillarbox, arrivals: Arrivals, file: Path, pipe: str, column: str, time: str
) -> None:
    connection = apsw.Connection(str(file))
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute(f"UPDATE {STRANDS[pipe]} SET due_at = NULL, {column} = {time} WHERE session_id = 'bad'")
    connection.execute(f"UPDATE {STRANDS[pipe]} SET due_at = NULL WHERE session_id = 'well'")
    lane, now = (box.inbound.lane if pipe == "inbound" else box.hooks.lane), box.database.clock.now()
    assert await lane.next_due(now=now) is None
    other = "due_at" if column == "lease_until" else "lease_until"
    connection.execute(f"UPDATE {STRANDS[pipe]} SET {other} = '{LONG_AGO}' WHERE session_id = 'well'")
    connection.close()
    due = await lane.next_due(now=now)
    assert due is not None
    assert due.year == 2020


@pytest.mark.parametrize("time", ["X'C3' || created_at", "'!' || created_at", "substr(created_at, 1, 25) || ' Z'"])
async def test_what_needs_an_operator_is_told_whatever_became_of_its_time(
    box: Pillarbox, arrivals: Arrivals, file: Path, time: str
) -> None:
    connection = apsw.Connection(str(file))
    connection.execute(f"UPDATE hook_outbox SET created_at = {time} WHERE session_id = 'bad'")
    connection.close()
    await arrivals.all_delivered()
    attention = await box.attention()
    assert [item.session_id for item in attention.items if item.kind == "dead-event"] == ["bad", "bad"]
    assert all(item.age_seconds < 3600 and item.since.year < 9000 for item in attention.items)


async def test_no_age_is_told_where_the_last_digit_of_the_time_is_gone(box: Pillarbox, file: Path) -> None:
    for only, known in (("session_id = 'bad'", True), ("true", False)):
        connection = apsw.Connection(str(file))
        for table in ROWS.values():
            connection.execute(f"UPDATE {table} SET created_at = substr(created_at, 1, 25) || ' Z' WHERE {only}")
        connection.close()
        for status in (await box.inbound.status(), await box.hooks.status()):
            assert (status.oldest_age_seconds is not None) is known
            assert (status.oldest_age_seconds or 0) < 3600
