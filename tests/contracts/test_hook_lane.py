"""What the hook lane promises the engine, on every database."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from pillarbox.engine import Delivered, Failed, Retry, Room, Settlement, Skipped
from tests.contracts.hook_boxes import HookNode, another, hook_node_at, reports_on

LEASE = 30.0
PROMPT, STOP = "user_prompt_submit", "agent_stop"


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


@pytest.fixture
async def here(url: str) -> AsyncIterator[HookNode]:
    async with hook_node_at(url) as opened:
        yield opened


@pytest.fixture
async def there(here: HookNode) -> AsyncIterator[HookNode]:
    async with another(here) as opened:
        yield opened


# Claiming


async def test_a_sessions_run_is_claimed_in_order_by_one_node_alone(here: HookNode, there: HookNode) -> None:
    await here.node.open("s")
    ids = await here.post_all("s", PROMPT, "tool_use", STOP)
    strand = await here.claim_one()
    assert [row.id for row in strand.rows] == ids
    await here.post("s", PROMPT)
    assert await there.claim() == []
    assert await here.statuses("s") == ["processing"] * 3 + ["pending"]


async def test_a_claim_marks_its_rows_and_counts_the_attempt(here: HookNode) -> None:
    await here.node.open("s")
    event = await here.post("s", PROMPT, prompt="hi", nested={"a": [1, None]})
    here.clock.advance(2)
    (row,) = (await here.claim_one()).rows
    assert (row.id, row.seq, row.event_type, row.attempt_count) == (event, 1, PROMPT, 1)
    assert (row.payload, row.last_error) == ({"prompt": "hi", "nested": {"a": [1, None]}}, None)
    record = await here.get(event)
    assert (record.status, record.locked_at, record.next_attempt_at) == ("processing", here.now, None)
    assert record.created_at == here.now - seconds(2)


async def test_two_nodes_claiming_at_once_never_take_the_same_session(here: HookNode, there: HookNode) -> None:
    for number in range(30):
        await here.node.open(f"s{number}")
        await here.post(f"s{number}")
    taken = await asyncio.gather(*(claimer.claim(5) for claimer in (here, there) * 4))
    keys = [strand.key for strands in taken for strand in strands]
    keys += [strand.key for strand in await here.claim()]
    assert sorted(keys) == sorted(f"s{number}" for number in range(30))


async def test_no_more_sessions_are_claimed_than_there_are_slots(here: HookNode) -> None:
    for number in range(5):
        await here.node.open(f"s{number}")
        await here.post_all(f"s{number}", PROMPT, STOP)
    assert await here.claim(0) == []
    assert len(await here.claim(3)) == 3
    assert len(await here.claim(3)) == 2


async def test_a_thousand_events_of_one_session_do_not_delay_the_one_of_another(here: HookNode) -> None:
    await here.node.open("busy")
    await here.node.open("quiet")
    await asyncio.gather(*(here.post("busy", PROMPT) for _ in range(1000)))
    here.clock.advance(1)
    await here.post("quiet", STOP)
    first = await here.claim(1)
    assert [strand.key for strand in first] == ["busy"]
    here.clock.advance(1)
    turn = await here.lane.turn(reports_on(first[0], [Delivered()] * 32), here.lease, room=Room(1, 1), now=here.now)
    assert [strand.key for strand in turn.claimed] == ["quiet"]


async def test_tokens_only_grow(here: HookNode) -> None:
    await here.node.open("s")
    tokens = []
    for _ in range(3):
        await here.post("s")
        strand = await here.claim_one()
        tokens.append(strand.token)
        assert await here.settle(strand)
    assert tokens == sorted(set(tokens))


# Settling


async def test_a_run_delivered_in_full_leaves_the_session_free(here: HookNode) -> None:
    await here.node.open("s")
    ids = await here.post_all("s", PROMPT, STOP)
    assert await here.settle(await here.claim_one())
    for event in ids:
        ended = await here.get(event)
        assert (ended.status, ended.delivered_at, ended.locked_at) == ("delivered", here.now, None)
        assert (ended.attempt_count, ended.last_error, ended.next_attempt_at) == (1, None, None)
    assert await here.claim() == []
    assert await here.lane.next_due(now=here.now) is None
    later = await here.post("s")
    assert [row.id for row in (await here.claim_one()).rows] == [later]


async def test_part_of_a_run_is_recorded_while_the_rest_is_still_held(here: HookNode, there: HookNode) -> None:
    await here.node.open("s")
    await here.post_all("s", PROMPT, STOP, PROMPT)
    strand = await here.claim_one()
    assert await here.settle(strand, Delivered())
    assert await here.statuses("s") == ["delivered", "processing", "processing"]
    await here.check_counters()
    assert await there.claim() == []
    assert here.renew(strand) == [strand]
    assert not await here.lane.settle(reports_on(strand, [Delivered()] * 2, skip=1), now=here.now)
    assert await here.statuses("s") == ["delivered"] * 3


async def test_a_failing_head_keeps_its_session_waiting_and_gives_back_what_stands_behind(here: HookNode) -> None:
    await here.node.open("s")
    ids, posted = await here.post_all("s", PROMPT, STOP, PROMPT), here.now
    at = here.now + timedelta(seconds=1, microseconds=1)
    here.clock.advance(0.5)
    assert await here.settle(await here.claim_one(), Retry("away", at))
    head, *behind = [await here.get(event) for event in ids]
    assert (head.status, head.attempt_count, head.last_error) == ("failed", 1, "away")
    assert (head.next_attempt_at, head.locked_at, head.delivered_at) == (at, None, None)
    for record in behind:
        assert (record.status, record.attempt_count, record.last_error) == ("pending", 0, None)
        assert (record.locked_at, record.next_attempt_at) == (None, posted)
    here.clock.advance(0.5)
    assert await here.claim() == []
    assert await here.lane.next_due(now=here.now) == at
    here.clock.advance(0.001)
    strand = await here.claim_one()
    assert [(row.id, row.attempt_count) for row in strand.rows] == list(zip(ids, (2, 1, 1), strict=True))
    assert strand.rows[0].last_error == "away"


async def test_prompt_one_fails_three_times_and_nothing_overtakes_it(here: HookNode) -> None:
    """The order under failure: stop-1 and prompt-2 wait, ten other sessions do not."""
    sessions = ["s", *(f"other{number}" for number in range(10))]
    for session in sessions:
        await here.node.open(session)
        await here.post_all(session, PROMPT, STOP, PROMPT)
    told: list[tuple[str, int]] = []
    for failures in range(3):
        for strand in await here.claim():
            if strand.key == "s":
                assert strand.rows[0].attempt_count == failures + 1
                await here.settle(strand, Retry("away", here.now + seconds(2**failures)))
            else:
                told += [(strand.key, row.seq) for row in strand.rows]
                await here.settle(strand)
        here.clock.advance(2**failures)
    assert sorted(told) == sorted((session, seq) for session in sessions[1:] for seq in (1, 2, 3))
    strand = await here.claim_one()
    assert [row.seq for row in strand.rows] == [1, 2, 3]
    assert await here.settle(strand)
    assert (await here.records("s"))[0].last_error is None


async def test_a_failure_in_the_middle_makes_that_event_the_head(here: HookNode) -> None:
    await here.node.open("s")
    ids = await here.post_all("s", PROMPT, STOP, PROMPT)
    assert await here.settle(await here.claim_one(), Delivered(), Retry("away", here.now + seconds(1)))
    assert await here.statuses("s") == ["delivered", "failed", "pending"]
    await here.check_counters()
    here.clock.advance(1)
    assert [row.id for row in (await here.claim_one()).rows] == ids[1:]


async def test_an_attempt_that_does_not_count_is_given_back(here: HookNode) -> None:
    await here.node.open("s")
    event = await here.post("s")
    await here.settle(await here.claim_one(), Retry("still starting", here.now, counts=False))
    record = await here.get(event)
    assert (record.status, record.attempt_count, record.last_error) == ("failed", 0, "still starting")


async def test_a_permanent_error_closes_its_event_at_once_and_the_next_goes(here: HookNode) -> None:
    await here.node.open("s")
    _, second, third = await here.post_all("s", PROMPT, STOP, PROMPT)
    assert await here.settle(await here.claim_one(), Delivered(), Failed("no such thing"))
    dead = await here.get(second)
    assert (dead.status, dead.last_error, dead.delivered_at) == ("dead", "no such thing", here.now)
    assert (dead.attempt_count, dead.next_attempt_at) == (1, None)
    assert [record.id for record in await here.hooks.list(status="dead")] == [second]
    await here.check_counters()
    assert [(row.id, row.attempt_count) for row in (await here.claim_one()).rows] == [(third, 1)]
    assert await here.statuses("s") == ["delivered", "dead", "processing"]


async def test_an_error_of_any_text_can_be_recorded(here: HookNode) -> None:
    await here.node.open("s")
    event = await here.post("s")
    await here.settle(await here.claim_one(), Retry("a\x00b\ud800" + "c" * 5000, here.now))
    error = (await here.get(event)).last_error
    assert error is not None
    assert error.startswith("a\\u0000b\\ud800ccc")
    assert len(error) == 1000


async def test_what_is_released_is_as_it_was_and_due_at_once(here: HookNode, there: HookNode) -> None:
    await here.node.open("s")
    ids = await here.post_all("s", PROMPT, STOP)
    await here.lane.release([await here.claim_one()], now=here.now)
    for event in ids:
        back = await here.get(event)
        assert (back.status, back.attempt_count, back.last_error, back.locked_at) == ("pending", 0, None, None)
    await here.check_counters()
    assert [row.attempt_count for row in (await there.claim_one()).rows] == [1, 1]


async def test_a_released_retry_keeps_its_error_and_its_attempts(here: HookNode) -> None:
    await here.node.open("s")
    event = await here.post("s")
    await here.settle(await here.claim_one(), Retry("away", here.now))
    await here.lane.release([await here.claim_one()], now=here.now)
    back = await here.get(event)
    assert (back.status, back.attempt_count, back.last_error) == ("failed", 1, "away")


async def test_a_skipped_event_gets_its_attempt_back_and_waits_with_its_reason(here: HookNode) -> None:
    await here.node.open("s")
    event = await here.post("s")
    await here.settle(await here.claim_one(), Skipped("not ready", at=here.now + seconds(5)))
    waiting = await here.get(event)
    assert (waiting.status, waiting.attempt_count, waiting.last_error) == ("failed", 0, "not ready")
    await here.check_counters()
    assert await here.claim() == []
    here.clock.advance(5)
    assert (await here.claim_one()).rows[0].attempt_count == 1


async def test_settling_and_claiming_the_next_share_a_turn(here: HookNode) -> None:
    await here.node.open("s")
    await here.post("s", PROMPT)
    strand = await here.claim_one()
    second = await here.post("s", STOP)
    turn = await here.lane.turn(reports_on(strand, [Delivered()]), here.lease, room=Room(1, 1), now=here.now)
    assert [row.id for claimed in turn.claimed for row in claimed.rows] == [second]
    assert turn.lost == []


async def test_a_turn_without_room_settles_and_claims_nothing(here: HookNode) -> None:
    await here.node.open("s")
    await here.post("s", PROMPT)
    strand = await here.claim_one()
    await here.post("s", STOP)
    turn = await here.lane.turn(reports_on(strand, [Delivered()]), here.lease, room=Room(0, 0), now=here.now)
    assert (turn.claimed, turn.lost) == ([], [])
    assert await here.statuses("s") == ["delivered", "pending"]


async def test_one_late_report_in_a_set_does_not_spoil_the_others(here: HookNode, there: HookNode) -> None:
    for session in ("kept", "lost"):
        await here.node.open(session)
        await here.post(session)
    strands = {strand.key: strand for strand in await here.claim()}
    here.clock.advance(LEASE - 1)
    assert here.renew(strands["kept"]) == [strands["kept"]]
    here.clock.advance(1)
    taken_over = await there.claim_one()
    settlements = [Settlement(strand, strand.rows[0], Delivered()) for strand in strands.values()]
    late = await here.lane.settle(settlements, now=here.now)
    assert [settlement.strand.key for settlement in late] == ["lost"]
    assert await here.statuses("kept") == ["delivered"]
    assert await here.statuses("lost") == ["processing"]
    assert await there.settle(taken_over)


async def test_a_report_that_comes_twice_counts_once(here: HookNode) -> None:
    """The answer to a commit may be lost; the engine then reports again."""
    await here.node.open("s")
    await here.post_all("s", PROMPT, STOP, PROMPT)
    strand = await here.claim_one()
    assert await here.settle(strand, Delivered())
    before = await here.records("s")
    here.clock.advance(1)
    assert await here.settle(strand, Delivered())
    assert await here.records("s") == before
    await here.check_counters()
    assert await here.settle(strand, Delivered(), Delivered())
    assert await here.statuses("s") == ["delivered", "delivered", "processing"]
    await here.check_counters()


async def test_a_report_that_leaves_out_the_head_is_refused_so_that_none_is_forgotten(here: HookNode) -> None:
    await here.node.open("s")
    ids = await here.post_all("s", PROMPT, STOP)
    strand = await here.claim_one()
    late = await here.lane.settle(reports_on(strand, [Delivered()], skip=1), now=here.now)
    assert [settlement.row.id for settlement in late] == [ids[1]]
    assert await here.statuses("s") == ["processing", "processing"]
    here.clock.advance(LEASE)
    assert [row.id for row in (await here.claim_one()).rows] == ids
