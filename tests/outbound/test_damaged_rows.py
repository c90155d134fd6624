"""A single value that was damaged on disk holds up nobody else's mail, ends nobody else's, and does not go unseen."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from pillarbox import Email
from pillarbox.box import Pillarbox
from pillarbox.errors import InvalidInput
from pillarbox.opening import open_database
from pillarbox.outbound.settling import WENT_AWAY
from pillarbox.settings import Settings
from pillarbox.storage.checksum import DAMAGED
from pillarbox.storage.migrate import migrate
from pillarbox.testing import ManualClock
from tests.contracts.outbound_boxes import OutboundNode, outbound_node_on

LEASE = 61.0
NO_TEXT = "X'C3' || {}"
OTHER_TEXT = "'!' || {}"
BOTH = pytest.mark.parametrize("how", [NO_TEXT, OTHER_TEXT], ids=["no text", "other text"])


@asynccontextmanager
async def opened(file: Path, clock: ManualClock) -> AsyncIterator[OutboundNode]:
    database = await open_database(f"sqlite:///{file}", Settings())
    database.clock = clock  # type: ignore[misc]
    await migrate(database)
    node = outbound_node_on(database, clock)
    yield node
    await node.outbound.close()
    await database.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "pillarbox.db"


@pytest.fixture
async def node(file: Path) -> AsyncIterator[OutboundNode]:
    async with opened(file, ManualClock()) as here:
        await here.tenant("bad", "well")
        yield here


async def spoil(node: OutboundNode, message_id: str, column: str, how: str = NO_TEXT) -> None:
    await node.sql(
        f"UPDATE message_queue SET {column} = {how.format(column)} WHERE message_id = :message_id",
        message_id=message_id,
    )


@pytest.mark.parametrize("how", [NO_TEXT, OTHER_TEXT, "'3' || substr({}, 2)"], ids=["no text", "no time", "far ahead"])
async def test_a_cap_whose_time_was_damaged_is_kept_anew_and_stops_no_other_tenant(
    node: OutboundNode, how: str
) -> None:
    await node.tenant("bad", rate=60)
    await node.put("bad")
    assert len(await node.claimed_ids()) == 1
    await node.sql(f"UPDATE tenants SET rate_until = {how.format('rate_until')} WHERE tenant_id = 'bad'")
    first, second, other = await node.put("bad"), await node.put("bad"), await node.put("well")
    assert set(await node.claimed_ids()) == {first, other}
    assert (await node.outbound.tenants.get("bad")).rate is not None
    assert await node.claimed_ids() == []
    node.clock.advance(1)
    assert await node.claimed_ids() == [second]


@BOTH
async def test_an_overdue_message_whose_time_was_damaged_is_tried_again_like_the_others(
    node: OutboundNode, how: str
) -> None:
    ids = {await node.put("bad"), await node.put("well")}
    assert set(await node.claimed_ids()) == ids
    column = how.format("claimed_at")
    await node.sql(f"UPDATE message_queue SET claimed_at = {column} WHERE tenant_id = 'bad'")
    node.clock.advance(LEASE)
    assert set(await node.claimed_ids()) == ids
    for message_id in ids:
        first, _ = (await node.get(message_id)).attempts
        assert (first.outcome, first.error) == ("unknown", WENT_AWAY)
        assert first.started_at <= node.now


@pytest.mark.parametrize("state", ["waiting", "held"])
async def test_a_damaged_id_holds_up_nobody_once_its_message_expires_or_its_lease_ends(
    node: OutboundNode, state: str, caplog: pytest.LogCaptureFixture
) -> None:
    spoiled = await node.put("bad", expires_at=node.later(10))
    if state == "held":
        await node.claim_one()
    await spoil(node, spoiled, "message_id")
    node.clock.advance(LEASE)
    well = await node.put("well")
    assert await node.claimed_ids() == [well]
    again = await node.put("well")
    assert await node.claimed_ids() == [again]
    assert len(told_of(spoiled, caplog)) == 1
    await node.lane.next_due(now=node.now)


def told_of(message_id: str, caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log says at its highest of a message, whatever of its id is left."""
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    return [each for each in said if message_id in each]


async def test_a_message_with_an_expired_and_healthy_id_still_expires_beside_a_damaged_one(node: OutboundNode) -> None:
    spoiled, healthy = [await node.put("bad", expires_at=node.later(10)) for _ in "ab"]
    await spoil(node, spoiled, "message_id")
    node.clock.advance(11)
    assert await node.claimed_ids() == []
    assert await node.status_of(healthy) == ["expired"]


async def test_what_a_lost_answer_claimed_is_given_back_although_one_id_was_damaged(node: OutboundNode) -> None:
    spoiled, well = await node.put("bad"), await node.put("well")
    assert len(await node.claim()) == 2
    await spoil(node, spoiled, "message_id")
    held = await node.lane.held_by(node.lease)
    assert [strand.key for strand in held] == [well]
    await node.lane.release(held, now=node.now)
    assert await node.claimed_ids() == [well]


@pytest.mark.parametrize("column", ["message_id", "tenant_id"])
async def test_a_damaged_row_takes_no_healthy_messages_place_and_is_told_of_once(
    node: OutboundNode, column: str, caplog: pytest.LogCaptureFixture
) -> None:
    spoiled, *healthy = await node.put_many("bad", 3)
    await spoil(node, spoiled, column)
    claimed = [message_id for _ in range(6) for message_id in await node.claimed_ids(slots=1)]
    assert claimed == healthy
    if column == "message_id":
        assert len(told_of(spoiled, caplog)) == 1


async def test_a_message_that_an_index_has_under_another_tenant_is_neither_sent_nor_ended(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    async with opened(file, clock) as node:
        await node.tenant("bad", "well")
        healthy, spoiled, well = await node.put("bad"), await node.put("bad"), await node.put("well")
    change_in_index(file, "idx_message_queue_ready", b"bad", b"bae")
    async with opened(file, clock) as node:
        assert {message_id for _ in range(4) for message_id in await node.claimed_ids()} == {healthy, well}
        assert await node.status_of(spoiled) == ["pending"]
    assert len(told_of(spoiled, caplog)) == 1


async def test_nobodys_mail_is_canceled_because_an_index_has_lost_its_tenant(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    async with opened(file, clock) as node:
        await node.tenant("bad", "well")
        hidden, well = await node.put_many("bad", 2), await node.put("well")
    change_in_index(file, "sqlite_autoindex_tenants_1", b"bad", b"bae")
    async with opened(file, clock) as node:
        strand = await node.claim_one()
        assert (strand.key, await node.settle(strand)) == (well, True)
        assert await node.status_of(*hidden) == ["pending", "pending"]
        assert (await node.get(hidden[0])).next_attempt_at == node.later(3600)
        assert any("a tenant is not where its index has it" in each and "bad" in each for each in caplog.messages)
        await node.sql("REINDEX")
        clock.advance(3600)
        assert await node.claimed_ids() == hidden


def change_in_index(file: Path, index: str, old: bytes, new: bytes) -> None:
    """Change what came last into an index as a disk does, without its table."""
    connection = apsw.Connection(str(file))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    page = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (index,)).get
    size = connection.pragma("page_size")
    connection.close()
    pages = file.read_bytes()
    place = pages.index(old, (page - 1) * size, page * size)
    file.write_bytes(pages[:place] + new + pages[place + len(new) :])


async def test_a_tenant_that_is_gone_still_takes_its_mail_with_it(node: OutboundNode) -> None:
    message_id = await node.put("bad")
    await node.sql("DELETE FROM tenants WHERE tenant_id = 'bad'")
    assert await node.claimed_ids() == []
    assert await node.status_of(message_id) == ["canceled"]


@BOTH
@pytest.mark.parametrize("column", ["tenant_id", "next_attempt_at", "expires_at", "lease_until"])
async def test_when_to_look_next_is_known_whatever_was_damaged(node: OutboundNode, column: str, how: str) -> None:
    of: dict[str, Any] = {
        "next_attempt_at": {"send_at": node.later(9)},
        "expires_at": {"expires_at": node.later(9)},
    }.get(column, {})
    await node.put("bad", **of)
    if column == "lease_until":
        await node.claim_one()
    await node.sql(f"UPDATE message_queue SET {column} = {how.format(column)}")
    soon = node.later(5)
    await node.put("well", send_at=soon)
    assert await node.lane.next_due(now=node.now) is not None
    await node.claim()
    due = await node.lane.next_due(now=node.now)
    assert due is not None
    assert due <= soon


async def test_a_damaged_holder_keeps_nobody_from_burying_the_dead(node: OutboundNode) -> None:
    spoiled, well = await node.put("bad"), await node.put("well")
    await node.claim()
    await spoil(node, spoiled, "holder")
    assert await node.lane.bury(lambda holder: holder == "here", now=node.now)
    assert await node.claimed_ids() == [well]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE message_history SET body_text = '!' || body_text",
        "UPDATE message_queue SET contacts = X'C3' || contacts",
        "UPDATE message_queue SET channel = 'e' || channel",
    ],
)
async def test_damaged_mail_that_fails_is_told_counted_and_needs_attention(
    file: Path, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Pillarbox.open(f"sqlite:///{file}") as box:
        await box.tenants.set("bad", providers={"email": {"provider": "sandbox"}})
        message_id = await box.outbound.send("bad", Email(to="a@b.example", subject="s", text="t"))
        connection = apsw.Connection(str(file))
        connection.execute(change)
        connection.close()
        await box.outbound.drain.step()
        message = await box.outbound.get(message_id)
        assert (message.status, message.error_message) == ("failed", DAMAGED)
        assert message.failed_at == message.updated_at
        assert (await box.attention()).counts["failed-message"].matching == 1
        counts = [line for line in box.metrics.exposition().decode().splitlines() if "msg_failed_total{" in line]
    assert [line[-3:] for line in counts if not line.endswith(" 0.0")] == ["1.0"]
    assert len(told_of(message_id, caplog)) == 1


@pytest.mark.parametrize("lost", ["history", "id"])
async def test_how_old_the_oldest_is_is_told_although_the_first_is_not_to_be_found(
    node: OutboundNode, lost: str
) -> None:
    first, second = await node.put_many("bad", 2)
    node.clock.advance(7)
    if lost == "history":
        await node.sql("DELETE FROM message_history WHERE message_id = :first", first=first)
    else:
        await spoil(node, first, "message_id", OTHER_TEXT)
    assert (await node.outbound.status()).oldest_age_seconds == 7
    await node.sql("DELETE FROM message_queue WHERE message_id = :second", second=second)
    assert (await node.outbound.status()).oldest_age_seconds is None


async def test_a_tenant_is_not_set_to_what_would_be_taken_for_damage(node: OutboundNode) -> None:
    account = {"provider": "sandbox", "from": "M\ufffd\U000e0001ller <a@b.example>"}
    with pytest.raises(InvalidInput, match=r"providers\.email\.from: must not contain the tag character U\+E0001"):
        await node.outbound.tenants.set("acme", providers={"email": account})
