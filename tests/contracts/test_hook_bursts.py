"""Bursts of events, coalesced as they are claimed, on every database."""

from collections.abc import AsyncIterator

import pytest

from pillarbox.engine import Delivered, Retry
from pillarbox.hooks.coalesce import CRITICAL
from pillarbox.hooks.policy import HooksPolicy
from tests.contracts.hook_boxes import HookNode, hook_node_at

PROMPT, STOP = "user_prompt_submit", "agent_stop"
NEARLY_ALL = 1024 * 1024 - 100


@pytest.fixture
async def here(url: str) -> AsyncIterator[HookNode]:
    async with hook_node_at(url) as opened:
        yield opened


async def deliver_all(here: HookNode, session_id: str) -> list[list[tuple[int, str]]]:
    """Deliver until nothing is left; the (seq, type) of each run."""
    runs = []
    while strands := await here.claim():
        (strand,) = strands
        assert strand.key == session_id
        runs.append([(row.seq, row.event_type) for row in strand.rows])
        assert await here.settle(strand)
    return runs


async def test_the_latest_of_a_burst_is_delivered_and_the_others_say_by_what_they_were_superseded(
    here: HookNode,
) -> None:
    await here.node.open("s")
    types = (PROMPT, "tool_use", "tool_done", "tool_use", "tool_done", STOP, "tool_use", "tool_use")
    ids = await here.post_all("s", *types)
    here.clock.advance(1)
    strand = await here.claim_one()
    assert [row.seq for row in strand.rows] == [1, 4, 5, 6, 8]
    superseded = {record.id: record for record in await here.records("s") if record.status == "superseded"}
    assert {event: (record.superseded_by, record.superseded_by_type) for event, record in superseded.items()} == {
        ids[1]: (ids[3], "tool_use"),
        ids[2]: (ids[4], "tool_done"),
        ids[6]: (ids[7], "tool_use"),
    }
    for record in superseded.values():
        assert (record.delivered_at, record.next_attempt_at, record.attempt_count) == (here.now, None, 0)
    await here.check_counters()


async def test_a_type_that_nobody_knows_is_coalesced_like_any_burst(here: HookNode) -> None:
    await here.node.open("s")
    await here.post_all("s", "of tomorrow", "of tomorrow", "of today")
    assert [row.seq for row in (await here.claim_one()).rows] == [2, 3]


async def test_no_critical_event_is_dropped_merged_or_moved(here: HookNode) -> None:
    await here.node.open("s")
    types = [kind for critical in sorted(CRITICAL) for kind in (critical, critical, "tool_use", "tool_use")]
    await here.post_all("s", *types)
    (run,) = await deliver_all(here, "s")
    critical = [(seq, kind) for seq, kind in enumerate(types, 1) if kind in CRITICAL]
    assert [each for each in run if each[1] in CRITICAL] == critical
    assert run == sorted(run)


async def test_the_latest_supersedes_a_failing_one_and_takes_its_place(here: HookNode) -> None:
    await here.node.open("s")
    await here.post_all("s", "tool_use", "tool_done")
    await here.settle(await here.claim_one(), Retry("away", here.now))
    await here.post("s", "tool_use")
    strand = await here.claim_one()
    assert [(row.seq, row.attempt_count) for row in strand.rows] == [(2, 1), (3, 1)]
    old = (await here.records("s"))[0]
    assert (old.status, old.superseded_by, old.last_error) == ("superseded", strand.rows[1].id, "away")
    await here.check_counters()
    assert await here.settle(strand)


async def test_what_is_in_flight_is_not_superseded(here: HookNode) -> None:
    await here.node.open("s")
    await here.post("s", "tool_use")
    strand = await here.claim_one()
    await here.post("s", "tool_use")
    assert await here.claim() == []
    assert await here.settle(strand)
    assert [row.seq for row in (await here.claim_one()).rows] == [2]
    assert await here.statuses("s") == ["delivered", "processing"]


async def test_a_run_has_no_more_events_than_may_be_in_memory(url: str) -> None:
    async with hook_node_at(url, HooksPolicy(strand_limit=4)) as here:
        await here.node.open("s")
        await here.store_types("s", *(PROMPT,) * 10)
        runs = await deliver_all(here, "s")
        assert [[seq for seq, _ in run] for run in runs] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]


async def test_a_run_has_no_more_bytes_than_may_be_in_memory_but_always_one_event(here: HookNode) -> None:
    await here.node.open("s")
    for size in (600_000, 500_000, 400_000, 1_040_000, 10):
        await here.post("s", PROMPT, prompt="x" * size)
    runs = await deliver_all(here, "s")
    assert [[seq for seq, _ in run] for run in runs] == [[1], [2, 3], [4, 5]]


@pytest.mark.parametrize("behind", [False, True], ids=["at the head", "behind the first look"])
async def test_events_arrive_whole_and_in_order_whatever_their_size(url: str, behind: bool) -> None:
    """Small ones are read with the first look, large ones and those behind it by a second; size is what is stored, in bytes."""
    async with hook_node_at(url, HooksPolicy(strand_limit=8)) as here:
        await here.node.open("s")
        await here.store_types("s", *("tool_use",) * (8 if behind else 0))
        texts = ["x" * (4096 - 13 + more) for more in (-1, 0, 1)] + ["ä" * 2041, "ä" * 2042, "", "€" * 4000]
        for text in texts:
            await here.post("s", PROMPT, prompt=text)
        strand = await here.claim_one()
        assert [row.payload for row in strand.rows][-len(texts) :] == [{"prompt": text} for text in texts]
        assert all(row.intact for row in strand.rows)


async def test_a_damaged_event_is_known_as_such_whatever_its_size(here: HookNode) -> None:
    for session_id, size in (("small", 10), ("large", 10_000)):
        await here.node.open(session_id)
        first, _ = [await here.post(session_id, PROMPT, prompt="x" * size) for _ in range(2)]
        await here.node.sql("UPDATE hook_outbox SET payload = replace(payload, 'xx', 'xy') WHERE id = :id", id=first)
    assert {strand.key: [row.intact for row in strand.rows] for strand in await here.claim()} == {
        "small": [False, True],
        "large": [False, True],
    }


async def test_an_event_that_is_no_text_any_more_holds_up_no_other_session(sqlite_url: str) -> None:
    """Nor its own; in a burst it stands by itself, for nobody knows any more of which type it was."""
    sizes = {"burst": (1, 1), "small": (1, 1), "large": (1, 9000), "behind": (NEARLY_ALL, 9000)}
    async with hook_node_at(sqlite_url, HooksPolicy(strand_limit=4)) as here:
        for session_id, (first, second) in sizes.items():
            await here.node.open(session_id)
            kind = "tool_use" if session_id == "burst" else PROMPT
            await here.post(session_id, kind, prompt="x" * first)
            damaged = await here.post(session_id, kind, prompt="x" * second)
            if session_id == "burst":
                damaged -= 1
            await here.post(session_id, PROMPT, prompt="healthy")
            await here.node.sql("UPDATE hook_outbox SET payload = X'C3' || payload WHERE id = :id", id=damaged)
        runs = {strand.key: [(row.seq, row.intact) for row in strand.rows] for strand in await here.claim()}
        held = {(strand.key, row.seq) for strand in await here.lane.held_by(here.lease) for row in strand.rows}
    assert runs == {
        "burst": [(1, False), (2, True), (3, True)],
        "small": [(1, True), (2, False), (3, True)],
        "large": [(1, True), (2, False), (3, True)],
        "behind": [(1, True)],
    }
    assert held == {(key, seq) for key, run in runs.items() for seq, _ in run}


@pytest.mark.parametrize("quiet", [1, 2, 3, 5, 6, 7, 1029, 1030, 1031])
async def test_the_end_of_a_look_splits_no_burst(url: str, quiet: int) -> None:
    """The first look takes in 4 here, the next 8, one behind that 2048; a burst across an end is followed up."""
    async with hook_node_at(url, HooksPolicy(strand_limit=4)) as here:
        await here.node.open("s")
        await here.store_types("s", *("tool_use", "tool_done") * quiet, STOP, "tool_use")
        (run,) = await deliver_all(here, "s")
        last = 2 * quiet
        assert run == [(last - 1, "tool_use"), (last, "tool_done"), (last + 1, STOP), (last + 2, "tool_use")]


async def test_a_burst_longer_than_a_claim_looks_through_is_delivered_in_a_few_pieces(here: HookNode) -> None:
    await here.node.open("s")
    await here.store_types("s", PROMPT, *("tool_use", "tool_done") * 2500, STOP)
    runs = await deliver_all(here, "s")
    told = [each for run in runs for each in run]
    assert told[0] == (1, PROMPT)
    assert told[-3:] == [(5000, "tool_use"), (5001, "tool_done"), (5002, STOP)]
    assert told == sorted(told)
    assert len(told) <= 7
    statuses = [record.status for record in await here.records("s")]
    assert statuses.count("delivered") == len(told)
    assert statuses.count("superseded") == 5002 - len(told)


async def test_bursts_among_critical_events_come_to_what_the_model_says(here: HookNode) -> None:
    await here.node.open("s")
    types = []
    for turn in range(40):
        types += [PROMPT, *("tool_use", "tool_done") * (turn % 13), *("progress",) * (turn % 3), STOP]
    await here.store_types("s", *types)
    told = [each for run in await deliver_all(here, "s") for each in run]
    expected: list[tuple[int, str]] = []
    segment: dict[str, int] = {}
    for seq, kind in enumerate(types, 1):
        if kind in CRITICAL:
            expected += [*sorted((at, name) for name, at in segment.items()), (seq, kind)]
            segment = {}
        else:
            segment[kind] = seq
    assert told == expected


async def test_a_piece_of_a_run_that_ends_early_gives_back_the_rest_of_it(url: str) -> None:
    async with hook_node_at(url, HooksPolicy(strand_limit=3)) as here:
        await here.node.open("s")
        await here.post_all("s", PROMPT, "tool_use", "tool_use", STOP, PROMPT, STOP)
        await here.settle(await here.claim_one(), Delivered(), Retry("away", here.now))
        assert await here.statuses("s") == ["delivered", "superseded", "failed", "pending", "pending", "pending"]
        await here.check_counters()
        runs = await deliver_all(here, "s")
        assert [[seq for seq, _ in run] for run in runs] == [[3, 4, 5], [6]]
