"""A disk that gives back other bytes than it was given: whatever is delivered is something that was handed in."""

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest

from pillarbox import Email
from pillarbox.box import Pillarbox
from pillarbox.errors import PillarboxError, Unavailable
from pillarbox.hooks.model import HookEvent
from pillarbox.hooks.tail import Tail
from pillarbox.inbound.model import InboundMessage
from pillarbox.settings import Settings
from pillarbox.settings.tree import Hooks
from pillarbox.storage import UNREADABLE, Step, instant, legible
from pillarbox.storage.checksum import DAMAGED, checksum, is_intact
from tests.contracts.notes import query

SESSIONS = 60
FLIPS = 50


def contents() -> set[str]:
    return {f"{number} " + "ein Brief, der ankommen soll " * 300 for number in range(SESSIONS)}


@pytest.fixture
async def original(tmp_path: Path) -> Path:
    """A folder with a database of which one half is in its file and the other in its log."""
    folder, busy = tmp_path / "original", tmp_path / "busy.db"
    folder.mkdir()
    async with Pillarbox.open(f"sqlite:///{busy}") as box:
        for number, content in enumerate(sorted(contents())):
            session_id = f"s{number}"
            await box.sessions.open(session_id=session_id, target={"kind": "python", "name": "keep"})
            await box.inbound.enqueue(session_id=session_id, origin="test", content=content)
            if number == SESSIONS // 2:
                connection = apsw.Connection(str(busy))
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                connection.close()
                assert busy.read_bytes().count(b"Brief")
        for suffix in ("", "-wal", ".key"):
            shutil.copy(f"{busy}{suffix}", folder / f"pillarbox.db{suffix}")
    return folder


def flip(file: Path, place: int, bit: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(place)
        (byte,) = opened.read(1)
        opened.seek(place)
        opened.write(bytes([byte ^ 1 << bit]))


async def delivered_from(file: Path) -> tuple[set[str], bool]:
    """What a box on this file delivers, and whether it said that something is wrong."""
    kept: set[str] = set()

    async def keep(message: InboundMessage) -> None:
        kept.add(message.content)

    try:
        async with Pillarbox.open(f"sqlite:///{file}") as box:
            box.inbound.target("keep")(keep)
            for _ in range(3):
                await box.inbound.drain.step()
            complaints = [message.last_error for message in await box.inbound.list(limit=1000) if message.last_error]
    except PillarboxError:
        return kept, True
    return kept, bool(complaints)


@pytest.mark.parametrize("suffix", ["", "-wal"])
async def test_no_flipped_bit_in_the_file_or_its_log_ever_reaches_a_target(
    original: Path, tmp_path: Path, suffix: str
) -> None:
    random, noticed, whole = Random(6), 0, 0
    for number in range(FLIPS):
        copy = tmp_path / f"copy-{number}"
        shutil.copytree(original, copy)
        file = copy / f"pillarbox.db{suffix}"
        flip(file, random.randrange(file.stat().st_size), random.randrange(8))
        kept, said = await delivered_from(copy / "pillarbox.db")
        assert kept <= contents()
        # Only the last transaction of a log may have been cut short by a crash.
        assert said or not suffix or kept >= contents() - {max(contents())}
        noticed += said
        whole += kept == contents()
        shutil.rmtree(copy)
    assert noticed > 0
    assert whole < FLIPS


# What a byte that was changed leaves behind is other text, or none at all.
DAMAGES = pytest.mark.parametrize("damaged", ["'!' || {}", "X'C3' || {}"], ids=["other text", "no text"])


@DAMAGES
async def test_a_message_whose_text_was_changed_on_disk_is_held_back_and_says_why(
    original: Path, tmp_path: Path, damaged: str
) -> None:
    file = original / "pillarbox.db"
    connection = apsw.Connection(str(file))
    connection.execute(f"UPDATE inbound_queue SET content = {damaged.format('content')} WHERE session_id = 's1'")
    connection.close()
    kept, said = await delivered_from(file)
    assert len(kept) == SESSIONS - 1
    assert kept < contents()
    assert said
    async with Pillarbox.open(f"sqlite:///{file}") as box:
        (held,) = await box.inbound.list(session_id="s1")
    assert held.last_error is not None
    assert "`pillarbox doctor`" in held.last_error
    assert "`pillarbox inbound expire`" in held.last_error


async def test_a_checkup_names_what_was_damaged_in_each_pipe_and_how_many_it_looked_at(database_url: str) -> None:
    key = {"secrets": {"key": "A" * 43 + "="}}
    async with Pillarbox.open(database_url, settings=key) as box:
        await box.tenants.set("acme", providers={"email": {"provider": "sandbox"}})
        for session_id in ("s1", "s2"):
            await box.sessions.open(session_id=session_id, target={"kind": "none"})
            stored = await box.hooks.post(session_id, "agent_stop", {"text": "t"})
            for number in range(120):
                message = await box.inbound.enqueue(session_id=session_id, origin="test", content=f"secret {number}")
        sent = await box.outbound.send("acme", Email(to="a@b.example", subject="s", text="t"))
        assert await contents_found(box) == (True, "as they were stored: 243 open messages and events")

        def damage() -> Step[None]:
            yield query("UPDATE inbound_queue SET content = 'changed' WHERE id = :id")(id=message.id)
            yield query("UPDATE hook_outbox SET payload = '{}' WHERE id = :id")(id=stored.id)
            yield query("UPDATE message_history SET body_text = 'changed' WHERE message_id = :id")(id=sent)

        await box.database.write(damage)
        ok, detail = await contents_found(box)
    assert not ok
    assert f"inbound {message.id}, hooks {stored.id}, outbound {sent} (of 243 open messages and events)" in detail
    assert "`pillarbox inbound expire ID`" in detail
    assert "changed" not in detail


async def test_a_checkup_names_what_is_no_text_any_more_and_looks_at_the_rest(original: Path) -> None:
    connection = apsw.Connection(str(original / "pillarbox.db"))
    connection.execute("UPDATE inbound_queue SET content = X'C3' || content WHERE id IN (5, 50)")
    connection.close()
    async with Pillarbox.open(f"sqlite:///{original}/pillarbox.db") as box:
        ok, detail = await contents_found(box)
    assert not ok
    assert f"inbound 5, inbound 50 (of {SESSIONS} open messages and events)" in detail


async def contents_found(box: Pillarbox) -> tuple[bool, str]:
    (found,) = (each for each in await box.checkup() if each.name == "contents")
    return found.ok, found.detail


@DAMAGES
async def test_damaged_events_and_outbound_messages_end_as_failed_and_say_why(tmp_path: Path, damaged: str) -> None:
    heard: list[object] = []
    async with Pillarbox.open(f"sqlite:///{tmp_path}/pillarbox.db") as box:

        @box.hooks.on("agent_stop")
        async def hear(event: HookEvent) -> None:
            heard.append(event)

        await box.sessions.open(session_id="s", target={"kind": "none"})
        await box.tenants.set("acme", providers={"email": {"provider": "sandbox"}})
        message_id = await box.outbound.send("acme", Email(to="a@b.example", subject="s", text="t"))
        stored = await box.hooks.post("s", "agent_stop", {"text": "t"})
        connection = apsw.Connection(f"{tmp_path}/pillarbox.db")
        connection.execute(f"UPDATE message_history SET body_text = {damaged.format('body_text')}")
        connection.execute(f"UPDATE hook_outbox SET payload = {damaged.format('payload')}")
        connection.close()
        for drain in (box.outbound.drain, box.hooks.drain):
            for _ in range(3):
                await drain.step()
        message = await box.outbound.get(message_id, tenant_id="acme")
        event = await box.hooks.get(stored.id)
    assert (message.status, message.attempt_count, message.error_message) == ("failed", 0, DAMAGED)
    assert (event.status, event.last_error) == ("dead", DAMAGED)
    assert heard == []


@pytest.mark.parametrize("damaged", ["X'C3' || {0}", "replace({0}, '-', 'x')"], ids=["no text", "no date"])
async def test_a_time_that_was_damaged_holds_up_no_other_message_of_any_pipe(tmp_path: Path, damaged: str) -> None:
    heard: list[object] = []
    async with Pillarbox.open(f"sqlite:///{tmp_path}/pillarbox.db") as box:

        @box.hooks.on("agent_stop")
        async def hear(event: HookEvent) -> None:
            heard.append(event.session_id)

        box.inbound.target("keep")(hear_message(heard))
        await box.tenants.set("acme", providers={"email": {"provider": "sandbox"}})
        for name in ("damaged", "well"):
            await box.sessions.open(session_id=name, target={"kind": "python", "name": "keep"})
            await box.hooks.post(name, "agent_stop", {"text": "t"})
            await box.inbound.enqueue(session_id=name, origin="test", content="c")
        letters = [await box.outbound.send("acme", Email(to="a@b.example", subject="s", text="t")) for _ in "ab"]
        connection = apsw.Connection(f"{tmp_path}/pillarbox.db")
        for table in ("inbound_queue", "hook_outbox"):
            connection.execute(
                f"UPDATE {table} SET created_at = {damaged.format('created_at')} WHERE session_id = 'damaged'"
            )
        said = f"UPDATE message_history SET created_at = {damaged.format('created_at')}"
        connection.execute(f"{said} WHERE message_id = ?", (letters[0],))
        connection.close()
        assert "inbound 1, hooks 1, outbound" in (await contents_found(box))[1]
        for drain in (box.inbound.drain, box.outbound.drain, box.hooks.drain):
            for _ in range(3):
                await drain.step()
        assert [(await box.outbound.get(each, tenant_id="acme")).status for each in letters] == ["failed", "sent"]
        assert [each.status for each in await box.hooks.list()] == ["dead", "delivered"]
        assert [each.status for each in await box.inbound.list()] == ["failed", "delivered"]
        assert (await box.inbound.status()).failed == 1
        assert len(await box.outbound.list(tenant_id="acme")) == 2
    assert heard == ["well", "well"]


def hear_message(heard: list[object]) -> Callable[[InboundMessage], Awaitable[None]]:
    async def hear(message: InboundMessage) -> None:
        heard.append(message.session_id)

    return hear


@pytest.mark.parametrize("column", ["event_type", "payload"])
async def test_damage_far_behind_in_a_burst_holds_up_no_other_session(tmp_path: Path, column: str) -> None:
    heard: list[str] = []
    async with Pillarbox.open(
        f"sqlite:///{tmp_path}/pillarbox.db", settings=Settings(hooks=Hooks(strand_limit=4))
    ) as box:

        @box.hooks.on("agent_stop")
        async def hear(event: HookEvent) -> None:
            heard.append(event.session_id)

        for name in ("burst", "well"):
            await box.sessions.open(session_id=name, target={"kind": "none"})
        for number in range(12):
            await box.hooks.post("burst", "tool_use", {"number": number})
        await box.hooks.post("well", "agent_stop", {"text": "t"})
        connection = apsw.Connection(f"{tmp_path}/pillarbox.db")
        connection.execute(f"UPDATE hook_outbox SET {column} = X'C3' || {column} WHERE seq = 11")
        connection.close()
        for _ in range(4):
            await box.hooks.drain.step()
        assert (await box.hooks.status()).pending == 0
    assert heard == ["well"]


async def test_what_was_damaged_after_its_delivery_stops_neither_pruning_nor_who_follows(tmp_path: Path) -> None:
    async with Pillarbox.open(f"sqlite:///{tmp_path}/pillarbox.db") as box:
        box.hooks.on("agent_stop")(nothing)
        await box.sessions.open(session_id="s", target={"kind": "none"})
        tail = Tail(box.database)
        await tail.begin(None)
        for number in range(3):
            await box.hooks.post("s", "agent_stop", {"number": number})
        await box.hooks.drain.step()
        connection = apsw.Connection(f"{tmp_path}/pillarbox.db")
        connection.execute("UPDATE hook_outbox SET payload = X'C3' || payload WHERE seq = 1")
        connection.execute("UPDATE hook_outbox SET delivered_at = X'C3' || delivered_at WHERE seq = 3")
        connection.close()
        assert [event.payload async for event in until_none(tail)] == [{"number": 1}]
        await box.hooks.post("s", "agent_stop", {"number": 3})
        await box.hooks.drain.step()
        assert [event.payload async for event in until_none(tail)] == [{"number": 3}]
        again = Tail(box.database)
        await again.begin((await box.hooks.list())[2].id)
        await box.hooks.post("s", "agent_stop", {"number": 4})
        await box.hooks.drain.step()
        assert {"number": 4} in [event.payload async for event in until_none(again)]
        assert await box.hooks.lane.prune(before=box.database.clock.now() + timedelta(days=1)) == 4
        assert [event.seq for event in await box.hooks.list()] == [3]


async def test_whoever_follows_does_not_wait_for_a_time_far_away_that_a_damaged_byte_made(tmp_path: Path) -> None:
    async with Pillarbox.open(f"sqlite:///{tmp_path}/pillarbox.db") as box:
        box.hooks.on("agent_stop")(nothing)
        await box.sessions.open(session_id="s", target={"kind": "none"})
        tail = Tail(box.database)
        await tail.begin(None)
        for number in range(3):
            await box.hooks.post("s", "agent_stop", {"number": number})
            await box.hooks.drain.step()
            if number == 0:
                connection = apsw.Connection(f"{tmp_path}/pillarbox.db")
                connection.execute("UPDATE hook_outbox SET delivered_at = '8' || substr(delivered_at, 2)")
                connection.close()
                assert [event async for event in until_none(tail)] == []
        assert [event.payload async for event in until_none(tail)] == [{"number": 1}, {"number": 2}]


async def nothing(event: HookEvent) -> None:
    """Takes whatever comes."""


async def until_none(tail: Tail) -> AsyncIterator[HookEvent]:
    async for event in tail.events():
        if event is None:
            return
        yield event


async def test_a_page_that_is_no_page_is_an_error_and_not_an_answer(original: Path) -> None:
    file = original / "pillarbox.db"
    connection = apsw.Connection(str(file))
    page = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'inbound_queue'").get
    connection.close()
    with file.open("r+b") as opened:
        opened.seek((page - 1) * 4096)
        opened.write(b"\xff" * 4096)
    async with Pillarbox.open(f"sqlite:///{file}") as box:
        with pytest.raises(Unavailable, match="restore a backup"):
            await box.inbound.list()
        with pytest.raises(Unavailable, match="restore a backup"):
            await box.inbound.enqueue(session_id="s1", origin="test", content="new")
        assert [finding.name for finding in await box.checkup() if not finding.ok] == ["integrity", "contents"]


def test_a_checksum_notices_what_moved_between_two_texts() -> None:
    assert is_intact(checksum("a", None, "bc"), "a", None, "bc")
    assert is_intact(None, "whatever was stored before there were checksums")
    assert not is_intact(checksum("a", None, "bc"), "ab", None, "c")


def test_a_text_whose_type_was_damaged_is_not_intact_and_no_time_either() -> None:
    as_bytes: Any = b"bc"
    assert not is_intact(checksum("a", None, "bc"), "a", None, as_bytes)
    assert legible(as_bytes) is UNREADABLE
    for damaged in (as_bytes, "2026-11-19T07:03:34"):
        with pytest.raises(Unavailable, match="doctor"):
            instant(damaged)
