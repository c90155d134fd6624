"""The large tables of the growth curves are what the pipes themselves would have made."""

import asyncio

import pytest

from bench.causes import Causes
from bench.growing.copying import FAR_AWAY
from bench.growing.keys import INBOX, NEW, OLD
from bench.growing.live import AT_ONCE, Pipe, Table
from bench.growing.mail import OUTBOUND
from bench.growing.strands import HOOKS, INBOUND, box_on
from bench.growth import chosen
from bench.ours import outbound
from bench.page import PICTURES, RESULTS, growth_section, pictures, read
from pillarbox import Pillarbox
from pillarbox.outbound.model import OutboundStatus

TABLE = Table(keys=4, pending=20, delivered=30, scheduled=7)


@pytest.mark.parametrize("pipe", [INBOUND, HOOKS, OUTBOUND], ids=lambda pipe: str(pipe.name))
async def test_what_waits_is_worked_off_with_what_is_new_and_the_rest_stays(pipe: Pipe, database_url: str) -> None:
    await pipe.make(database_url, TABLE)
    async with pipe.opened(database_url, TABLE.keys) as live:
        await live.put_in(0, 8)
        assert await live.work_off(28) == 28
        assert await live.step() == 0


@pytest.mark.parametrize("pipe", [INBOUND, HOOKS], ids=lambda pipe: str(pipe.name))
async def test_sessions_that_wait_for_a_retry_are_counted_as_failed(pipe: Pipe, database_url: str) -> None:
    await pipe.make(database_url, TABLE)
    async with box_on(database_url) as box:
        door = box.inbound if pipe.name == "inbound" else box.hooks
        status = await door.status()
    assert (status.pending, status.processing, status.failed) == (20, 0, 7)


async def test_scheduled_mail_waits_for_its_time(database_url: str) -> None:
    await OUTBOUND.make(database_url, TABLE)
    async with outbound.opened(database_url, deliver=lambda _: None) as mail:
        status: OutboundStatus = await mail.status()
        due = await asyncio.wait_for(mail.drain.step(), 30)
    assert (status.pending, due) == (27, 20)
    assert FAR_AWAY > "2090"


async def test_keys_that_are_remembered_are_known_to_the_inbox(database_url: str) -> None:
    await INBOX.make(database_url, Table(remembered=30))
    async with INBOX.opened(database_url, 1) as live:
        await live.put_in(0, AT_ONCE + 5)
        assert [await live.step() for _ in range(3)] == [AT_ONCE, 5, 0]
    async with Pillarbox.open(database_url) as box:
        for key in (f"{OLD}0", f"{OLD}29", f"{NEW}0", f"{NEW}{AT_ONCE + 4}"):
            assert (await box.inbox.try_begin(key)).status == "Processed", key
        status = await box.inbox_status()
    assert (status.leased, status.free, status.processed) == (0, 0, 30 + AT_ONCE + 5)


def test_the_curves_of_the_inbox_are_chosen_by_its_name_and_by_what_grows() -> None:
    inbox = [("remembered", kind, "inbox") for kind in ("sqlite", "postgres")]
    for only in ("inbox", "remembered"):
        assert [(axis.name, kind, pipe.name) for axis, kind, pipe in chosen(only)] == inbox
    assert len(chosen(None)) == 4 * 2 * 3 + 2
    assert chosen("inbox,pending") == []


def test_the_curves_of_the_inbox_are_shown_beside_the_others() -> None:
    measured = {"sizes": [1000, 10000], "rates": [20000.0, 19000.0], "microseconds": [40.0, 44.0]}
    curves = [{"pipe": "inbox", "store": store, "axis": "remembered", **measured} for store in ("sqlite", "postgres")]
    others = read("growth-all")
    document = {**others, "curves": [each for each in others["curves"] if each["axis"] != "remembered"] + curves}
    lines = list(growth_section([document], Causes(RESULTS / "bench-causes.json")))
    for curve in curves:
        beginning = f"| inbox | {curve['store']} | keys that were processed and are remembered |"
        (line,) = (line for line in lines if line.startswith(beginning))
        assert line.endswith("| 1,000: 20,000 (40), 10,000: 19,000 (44) | 0.95 | 1.10 | met |")
    drawn = dict(pictures([document], read("soak")))[PICTURES / "growth-remembered.svg"]
    assert all(f">inbox, {curve['store']}</text>" in drawn for curve in curves)
