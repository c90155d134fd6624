"""What the inbound lane promises the engine, on every database."""

import asyncio
from datetime import timedelta

import pytest

from pillarbox.engine import Delivered, Failed, Retry, Room, Settlement, Skipped
from pillarbox.errors import AlreadyEnded, NotFound, SessionClosed
from pillarbox.sessions import SessionChange
from tests.contracts.asleep import AsleepClock
from tests.contracts.boxes import MINUTE, Node

LEASE = 301.0


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


# Claiming


async def test_only_the_head_of_a_session_is_claimed(node: Node, other: Node) -> None:
    await node.open("s")
    first = await node.put("s", "one")
    await node.put("s", "two")
    strand = await node.claim_one()
    assert [parcel.id for parcel in strand.rows] == [first.id]
    assert await other.claim() == []
    assert await node.statuses("s") == ["processing", "pending"]


async def test_a_waiting_head_holds_back_what_stands_behind_it(node: Node) -> None:
    await node.open("s")
    first = await node.put("s", "one")
    await node.put("s", "two")
    await node.settle(await node.claim_one(), Retry("away", node.now + seconds(5)))
    node.clock.advance(4.999)
    assert await node.claim() == []
    node.clock.advance(0.001)
    assert (await node.claim_one()).rows[0].id == first.id


async def test_a_session_whose_message_is_gone_from_a_damaged_file_holds_up_no_other(node: Node) -> None:
    for session in "abc":
        await node.open(session)
    gone, *kept = [await node.put(session) for session in "abc"]
    await node.sql("DELETE FROM inbound_queue WHERE id = :id", id=gone.id)
    assert sorted(strand.rows[0].id for strand in await node.claim()) == [each.id for each in kept]


async def test_sessions_do_not_wait_for_each_other(node: Node) -> None:
    for session in "abc":
        await node.open(session)
        await node.put(session)
        await node.put(session)
    assert sorted(strand.key for strand in await node.claim()) == ["a", "b", "c"]


async def test_two_nodes_claiming_at_once_never_take_the_same_session(node: Node, other: Node) -> None:
    for number in range(30):
        await node.open(f"s{number}")
        await node.put(f"s{number}")
    taken = await asyncio.gather(*(claimer.claim(5) for claimer in (node, other) * 4))
    keys = [strand.key for strands in taken for strand in strands]
    keys += [strand.key for strand in await node.claim()]
    assert sorted(keys) == sorted({f"s{number}" for number in range(30)})


async def test_no_more_is_claimed_than_there_are_slots(node: Node) -> None:
    for number in range(5):
        await node.open(f"s{number}")
        await node.put(f"s{number}")
    assert len(await node.claim(3)) == 3
    assert len(await node.claim(3)) == 2


async def test_the_longest_due_goes_first(node: Node) -> None:
    for session in ("late", "early"):
        await node.open(session)
    await node.put("early")
    node.clock.advance(1)
    await node.put("late")
    assert [strand.key for strand in await node.claim(1)] == ["early"]


async def test_a_claim_marks_the_row_and_counts_the_attempt(node: Node) -> None:
    await node.open("s")
    await node.put("s", "one", payload={"a": [1, None]}, actor_id="42", source_message_id="m", source_channel_id="c")
    node.clock.advance(2)
    strand = await node.claim_one()
    message = strand.rows[0].message
    assert (message.status, message.attempt_count, message.locked_at) == ("processing", 1, node.now)
    assert (message.token, message.payload_json, message.actor_id) == (strand.token, '{"a": [1, null]}', "42")
    assert message == await node.get(message.id)


async def test_tokens_only_grow(node: Node) -> None:
    await node.open("s")
    tokens = []
    for number in range(3):
        await node.put("s", str(number))
        strand = await node.claim_one()
        tokens.append(strand.token)
        assert await node.settle(strand)
    assert tokens == sorted(set(tokens))


# Settling


async def test_a_delivery_ends_the_row_and_makes_the_next_due_at_once(node: Node) -> None:
    await node.open("s")
    first, second = await node.put("s", "one"), await node.put("s", "two")
    assert await node.settle(await node.claim_one(), Delivered())
    ended = await node.get(first.id)
    assert (ended.status, ended.processed_at, ended.locked_at) == ("delivered", node.now, None)
    assert (await node.claim_one()).rows[0].id == second.id
    queue = await node.inbound.queue("s")
    assert (queue.last_message_sent, queue.last_input_origin, queue.last_activity) == ("one", "chat", node.now)


async def test_a_failure_waits_exactly_until_its_time_with_its_error(node: Node) -> None:
    await node.open("s")
    put = await node.put("s")
    at = node.now + timedelta(seconds=5, microseconds=1)
    await node.settle(await node.claim_one(), Retry("the pane is gone", at))
    waiting = await node.get(put.id)
    assert (waiting.status, waiting.next_retry_at, waiting.last_error) == ("failed", at, "the pane is gone")
    assert (waiting.attempt_count, waiting.locked_at, waiting.processed_at) == (1, None, None)
    head = (await node.inbound.queue("s")).head
    assert head is not None
    assert (head.id, head.status, head.next_retry_at) == (put.id, "failed", at)


async def test_an_attempt_that_does_not_count_is_given_back(node: Node) -> None:
    await node.open("s")
    put = await node.put("s")
    await node.settle(await node.claim_one(), Retry("still starting", node.now, counts=False))
    waiting = await node.get(put.id)
    assert (waiting.status, waiting.attempt_count, waiting.last_error) == ("failed", 0, "still starting")


async def test_what_is_released_is_as_it_was_and_due_at_once(node: Node, other: Node) -> None:
    await node.open("s")
    put = await node.put("s")
    await node.lane.release([await node.claim_one()], now=node.now)
    back = await node.get(put.id)
    assert (back.status, back.attempt_count, back.last_error, back.locked_at) == ("pending", 0, None, None)
    assert (await other.claim_one()).rows[0].attempt_count == 1


async def test_a_released_retry_keeps_its_error_and_its_attempts(node: Node) -> None:
    await node.open("s")
    put = await node.put("s")
    await node.settle(await node.claim_one(), Retry("away", node.now))
    await node.lane.release([await node.claim_one()], now=node.now)
    back = await node.get(put.id)
    assert (back.status, back.attempt_count, back.last_error) == ("failed", 1, "away")


async def test_a_skipped_message_gets_its_attempt_back_and_waits(node: Node) -> None:
    await node.open("s")
    put = await node.put("s")
    await node.settle(await node.claim_one(), Skipped("not ready", at=node.now + seconds(5)))
    assert await node.claim() == []
    assert (await node.get(put.id)).attempt_count == 0
    assert (await node.get(put.id)).last_error == "not ready"
    node.clock.advance(5)
    assert (await node.claim_one()).rows[0].attempt_count == 1


async def test_a_message_that_can_never_be_delivered_closes_its_session_with_the_reason(node: Node) -> None:
    await node.open("s")
    first, second = await node.put("s", "one"), await node.put("s", "two")
    assert await node.settle(await node.claim_one(), Failed("the session is gone"))
    for put in (first, second):
        ended = await node.get(put.id)
        assert (ended.status, ended.last_error, ended.processed_at) == ("expired", "the session is gone", node.now)
    assert (await node.sessions.get("s")).lifecycle_status == "closed"


async def test_settling_and_claiming_the_next_share_a_turn(node: Node) -> None:
    await node.open("s")
    await node.put("s", "one")
    second = await node.put("s", "two")
    strand = await node.claim_one()
    settlement = Settlement(strand, strand.rows[0], Delivered())
    turn = await node.lane.turn([settlement], node.lease, room=Room(1, 1), now=node.now)
    assert [strand.rows[0].id for strand in turn.claimed] == [second.id]
    assert turn.lost == []


async def test_one_late_report_in_a_set_does_not_spoil_the_others(node: Node, other: Node) -> None:
    for session in ("kept", "lost"):
        await node.open(session)
        await node.put(session)
    strands = {strand.key: strand for strand in await node.claim()}
    await node.inbound.expire(strands["lost"].rows[0].id)
    settlements = [Settlement(strand, strand.rows[0], Delivered()) for strand in strands.values()]
    late = await node.lane.settle(settlements, now=node.now)
    assert [settlement.strand.key for settlement in late] == ["lost"]
    assert await node.statuses("kept") == ["delivered"]
    assert await node.statuses("lost") == ["expired"]


# Leases and fencing


async def test_a_lease_that_is_over_is_rescued_and_its_holder_fenced_out(node: Node, other: Node) -> None:
    await node.open("s")
    put = await node.put("s")
    stale = await node.claim_one()
    node.clock.advance(LEASE)
    fresh = await other.claim_one()
    assert fresh.token > stale.token
    before = await node.get(put.id)
    assert before.death_count == 1
    assert before.attempt_count == 2
    assert node.renew(stale) == []
    assert node.lane.held([stale]) == []
    for outcome in (Delivered(), Retry("late", node.now), Skipped(""), Failed("late")):
        assert not await node.settle(stale, outcome)
    await node.lane.release([stale], now=node.now)
    assert await node.get(put.id) == before
    assert (await node.sessions.get("s")).lifecycle_status == "active"
    assert other.lane.held([fresh]) == [fresh]
    assert await other.settle(fresh)


async def test_a_report_after_the_lease_counts_while_nobody_else_has_taken_over(node: Node) -> None:
    """At least once, but not twice without need."""
    await node.open("s")
    await node.put("s")
    strand = await node.claim_one()
    node.clock.advance(LEASE)
    assert await node.settle(strand)
    assert await node.statuses("s") == ["delivered"]


async def test_a_lease_ends_exactly_when_it_should(node: Node, other: Node) -> None:
    await node.open("s")
    await node.put("s")
    await node.claim_one()
    node.clock.advance(299.999)
    assert await other.claim() == []
    node.clock.advance(0.001)
    assert len(await other.claim()) == 1


async def test_a_renewed_lease_lasts_from_its_renewal(node: Node, other: Node) -> None:
    await node.open("s")
    await node.put("s")
    strand = await node.claim_one()
    began = node.now
    node.clock.advance(200)
    assert node.renew(strand) == [strand]
    node.clock.advance(299)
    assert await other.claim() == []
    assert (await node.get(strand.rows[0].id)).locked_at == began
    assert await node.settle(strand)


async def test_renewing_nothing_renews_nothing(node: Node) -> None:
    assert node.renew() == []
    assert node.lane.held([]) == []


async def test_a_message_that_kills_its_workers_waits_the_longest_in_the_end(node: Node) -> None:
    await node.open("s")
    put = await node.put("s")
    await node.claim_one()
    for deaths in (1, 2):
        node.clock.advance(LEASE)
        assert (await node.claim_one()).rows[0].attempt_count == deaths + 1
    node.clock.advance(LEASE)
    assert await node.claim() == []
    waiting = await node.get(put.id)
    assert (waiting.status, waiting.death_count, waiting.attempt_count) == ("failed", 3, 3)
    assert waiting.next_retry_at == node.now + seconds(300)
    assert "deaths so far: 3" in (waiting.last_error or "")
    node.clock.advance(300)
    assert (await node.claim_one()).rows[0].attempt_count == 4


async def test_the_lease_of_a_process_known_to_be_dead_is_over_at_once(node: Node, other: Node) -> None:
    await node.open("s")
    await node.put("s")
    stale = await node.claim_one()
    assert not await other.lane.bury(lambda holder: False, now=node.now)
    assert await other.lane.bury(lambda holder: holder == "here", now=node.now)
    assert (await other.claim_one()).token > stale.token
    assert not await node.settle(stale)


async def test_the_next_due_time_counts_retries_and_leases(node: Node) -> None:
    assert await node.lane.next_due(now=node.now) is None
    await node.open("a")
    await node.open("b")
    await node.put("a")
    assert await node.lane.next_due(now=node.now) == node.now
    held = await node.claim_one()
    assert await node.lane.next_due(now=node.now) == node.now + node.lease.length
    await node.put("b")
    (other,) = await node.claim()
    await node.settle(other, Retry("away", node.now + seconds(7)))
    assert await node.lane.next_due(now=node.now) == node.now + seconds(7)
    await node.settle(held)
    assert await node.lane.next_due(now=node.now) == node.now + seconds(7)


# Closing


async def test_closing_expires_all_that_is_open_and_fences_out_who_delivers(node: Node) -> None:
    await node.open("s")
    puts = [await node.put("s", str(number)) for number in range(4)]
    await node.settle(await node.claim_one())
    in_flight = await node.claim_one()
    assert await node.sessions.close("s") == 3
    assert await node.statuses("s") == ["delivered", "expired", "expired", "expired"]
    before = await node.get(puts[1].id)
    assert before.processed_at == node.now
    assert before.locked_at is None
    assert node.renew(in_flight) == []
    assert not await node.settle(in_flight)
    assert not await node.settle(in_flight, Retry("late", node.now))
    assert await node.get(puts[1].id) == before
    node.clock.advance(LEASE)
    assert await node.claim() == []
    assert await node.lane.next_due(now=node.now) is None


async def test_closing_again_ends_nothing_more(node: Node) -> None:
    await node.open("s")
    await node.put("s")
    assert await node.sessions.close("s") == 1
    closed_at = (await node.sessions.get("s")).closed_at
    node.clock.advance(1)
    assert await node.sessions.close("s") == 0
    assert (await node.sessions.get("s")).closed_at == closed_at


async def test_a_closed_and_an_unknown_session_refuse_messages(node: Node) -> None:
    await node.open("s")
    await node.sessions.close("s")
    with pytest.raises(SessionClosed):
        await node.put("s")
    with pytest.raises(NotFound):
        await node.put("never")
    with pytest.raises(NotFound):
        await node.sessions.close("never")


async def test_enqueueing_while_the_session_closes_is_refused_or_expired_never_left(node: Node, other: Node) -> None:
    for number in range(10):
        session = f"s{number}"
        await node.open(session)
        answers = await asyncio.gather(
            *(node.put(session, str(n)) for n in range(5)),
            other.sessions.close(session),
            *(other.put(session, str(n)) for n in range(5)),
            return_exceptions=True,
        )
        assert all(not isinstance(answer, Exception) or isinstance(answer, SessionClosed) for answer in answers)
        assert set(await node.statuses(session)) <= {"expired"}
    assert await node.claim() == []


# Destinations and nodes


async def test_no_destination_gets_more_than_its_share_and_the_others_get_the_rest(node: Node) -> None:
    for number in range(10):
        await node.open(f"busy{number}", url="http://busy.example/")
        await node.put(f"busy{number}")
    await node.open("quiet", url="http://quiet.example/")
    node.clock.advance(1)
    await node.put("quiet")
    strands = await node.claim(room=Room.of(4, {}))
    assert sorted(strand.destination for strand in strands) == ["http://busy.example"] * 3 + ["http://quiet.example"]


async def test_a_full_destination_is_passed_over(node: Node) -> None:
    for number in range(200):
        await node.open(f"busy{number}", url="http://busy.example/")
        await node.put(f"busy{number}")
    node.clock.advance(1)
    await node.open("quiet", url="http://quiet.example/")
    await node.put("quiet")
    full = Room.of(4, {"http://busy.example": 3})
    assert [strand.key for strand in await node.claim(room=full)] == ["quiet"]
    assert await node.claim(room=full) == []


async def test_behind_many_full_destinations_the_others_are_found_in_time(node: Node) -> None:
    taken = {}
    for number in range(150):
        url = f"http://busy{number:03}.example"
        await node.open(f"busy{number}", url=url)
        await node.put(f"busy{number}")
        taken[url] = 1
    await node.open("quiet", url="http://zzz.example/")
    await node.put("quiet")
    found = [strand.key for _ in range(4) for strand in await node.claim(room=Room(1, 1, taken))]
    assert found == ["quiet"]


async def test_a_session_of_a_node_is_claimed_by_that_node_alone(node: Node, other: Node) -> None:
    await node.open("s", node="there")
    await node.put("s")
    assert await node.claim() == []
    assert await node.lane.next_due(now=node.now) is None
    assert [strand.key for strand in await other.claim()] == ["s"]


async def test_a_python_target_is_claimed_only_where_it_is_registered(node: Node, other: Node) -> None:
    async def deliver(message: object) -> None: ...

    await node.open("s", target={"kind": "python", "name": "greet"}, node="here")
    await node.put("s")
    assert await node.claim() == []
    other.inbound.target("greet")(deliver)
    assert [strand.key for strand in await other.claim()] == ["s"]


async def test_what_one_serves_last_is_not_starved_by_what_it_serves_first(node: Node) -> None:
    for number in range(6):
        await node.open(f"any{number}", url=f"http://any{number}.example/")
        await node.open(f"mine{number}", url=f"http://mine{number}.example/", node="here")
        await node.put(f"any{number}")
        await node.put(f"mine{number}")
    keys = [strand.key[:3] for _ in range(6) for strand in await node.claim(1)]
    assert {"any", "min"} == set(keys)


# Changing


async def test_a_change_of_target_makes_the_waiting_head_due(node: Node) -> None:
    await node.open("s")
    put = await node.put("s")
    await node.settle(await node.claim_one(), Retry("away", node.now + MINUTE))
    await node.sessions.change("s", SessionChange(target={"kind": "http", "url": "http://new.example/"}))
    assert (await node.get(put.id)).next_retry_at == node.now
    strand = await node.claim_one()
    assert strand.destination == "http://new.example"
    assert "new.example" in strand.rows[0].target


async def test_a_change_leaves_a_delivery_under_way_alone(node: Node) -> None:
    await node.open("s")
    await node.put("s")
    strand = await node.claim_one()
    await node.sessions.change("s", SessionChange(target={"kind": "http", "url": "http://new.example/"}))
    assert await node.claim() == []
    assert await node.settle(strand)


async def test_a_closed_session_cannot_be_changed(node: Node) -> None:
    await node.open("s")
    await node.sessions.close("s")
    with pytest.raises(SessionClosed):
        await node.sessions.change("s", SessionChange(title="again"))
    with pytest.raises(SessionClosed):
        await node.sessions.change("s", SessionChange(lifecycle_status="active"))


async def test_a_starting_session_is_waited_for(node: Node) -> None:
    await node.open("s", lifecycle_status="initializing")
    await node.put("s")
    node.clock.advance(14.999)
    assert await node.claim() == []
    node.clock.advance(0.001)
    assert (await node.claim_one()).rows[0].starting


async def test_a_session_that_becomes_active_gets_its_messages_at_once(node: Node) -> None:
    await node.open("s", lifecycle_status="initializing")
    await node.put("s")
    await node.sessions.change("s", SessionChange(lifecycle_status="active"))
    assert not (await node.claim_one()).rows[0].starting


# Operators


async def test_an_operator_can_have_a_waiting_head_tried_now(node: Node) -> None:
    await node.open("s")
    put = await node.put("s")
    await node.settle(await node.claim_one(), Retry("away", node.now + MINUTE))
    shown = await node.inbound.retry(put.id)
    assert (shown.status, shown.next_retry_at, shown.last_error) == ("failed", node.now, "away")
    assert (await node.claim_one()).rows[0].attempt_count == 2


async def test_retrying_what_is_in_flight_or_behind_changes_nothing(node: Node) -> None:
    await node.open("s")
    first, second = await node.put("s", "one"), await node.put("s", "two")
    strand = await node.claim_one()
    before = [await node.get(first.id), await node.get(second.id)]
    await node.inbound.retry(first.id)
    await node.inbound.retry(second.id)
    assert [await node.get(first.id), await node.get(second.id)] == before
    assert await node.claim() == []
    assert await node.settle(strand)


async def test_an_operator_can_give_up_a_head_so_that_the_next_goes(node: Node) -> None:
    await node.open("s")
    first, second = await node.put("s", "one"), await node.put("s", "two")
    await node.settle(await node.claim_one(), Retry("away", node.now + MINUTE))
    expired = await node.inbound.expire(first.id)
    assert (expired.status, expired.processed_at, expired.last_error) == ("expired", node.now, "away")
    assert (await node.claim_one()).rows[0].id == second.id


async def test_giving_up_a_message_in_flight_fences_out_its_delivery(node: Node, other: Node) -> None:
    await node.open("s")
    first, second = await node.put("s", "one"), await node.put("s", "two")
    strand = await node.claim_one()
    await other.inbound.expire(first.id)
    assert node.renew(strand) == []
    assert not await node.settle(strand)
    assert (await node.get(first.id)).status == "expired"
    next_strand = await other.claim_one()
    assert next_strand.rows[0].id == second.id
    assert not await node.settle(strand, Retry("late", node.now))
    assert await other.settle(next_strand)


async def test_giving_up_a_message_behind_the_head_keeps_the_order_of_the_rest(node: Node) -> None:
    await node.open("s")
    puts = [await node.put("s", str(number)) for number in range(4)]
    await node.inbound.expire(puts[1].id)
    await node.inbound.expire(puts[2].id)
    order = []
    for _ in range(2):
        strand = await node.claim_one()
        order.append(strand.rows[0].id)
        await node.settle(strand)
    assert order == [puts[0].id, puts[3].id]
    queue = await node.inbound.queue("s")
    assert (queue.pending, queue.failed, queue.processing, queue.head) == (0, 0, 0, None)


async def test_what_has_ended_stays_as_it_is(node: Node) -> None:
    await node.open("s")
    put = await node.put("s")
    await node.settle(await node.claim_one())
    for act in (node.inbound.retry, node.inbound.expire):
        with pytest.raises(AlreadyEnded):
            await act(put.id)
        with pytest.raises(NotFound):
            await act(10**9)


# Time


async def test_waits_and_leases_that_a_clock_made_too_long_are_cut(node: Node, other: Node) -> None:
    for session in ("waiting", "held"):
        await node.open(session)
        await node.put(session)
    strands = {strand.key: strand for strand in await node.claim()}
    await node.settle(strands["waiting"], Retry("away", node.now + timedelta(days=400)))
    await node.sql(
        "UPDATE inbound_strand SET lease_until = :at WHERE session_id = 'held'", at=node.now + timedelta(days=400)
    )
    await node.lane.straighten(clock=node.clock, longest_wait=seconds(300), lease=node.lease.length)
    assert await node.lane.next_due(now=node.now) == node.now + seconds(300)
    node.clock.advance(LEASE)
    assert sorted(strand.key for strand in await other.claim()) == ["held", "waiting"]


async def test_straightening_leaves_ordinary_waits_alone(node: Node) -> None:
    await node.open("s")
    await node.put("s")
    await node.settle(await node.claim_one(), Retry("away", node.now + seconds(200)))
    await node.lane.straighten(clock=node.clock, longest_wait=seconds(300), lease=node.lease.length)
    assert await node.lane.next_due(now=node.now) == node.now + seconds(200)


async def test_who_stood_still_before_it_looked_cuts_no_hold_that_others_took_meanwhile(
    node: Node, other: Node
) -> None:
    await node.open("s")
    await node.put("s")
    await node.claim_one()
    clock = AsleepClock(node.clock)
    await other.lane.straighten(clock=clock, longest_wait=seconds(300), lease=node.lease.length)
    assert clock.woke
    node.clock.advance(LEASE - 2)
    assert await other.claim() == []


# Pruning


async def test_only_what_ended_long_enough_ago_is_pruned(node: Node) -> None:
    await node.open("s")
    await node.open("closed")
    puts = [await node.put("s", str(number)) for number in range(4)]
    await node.put("closed")
    await node.settle(next(strand for strand in await node.claim() if strand.key == "s"))
    await node.sessions.close("closed")
    node.clock.advance(10)
    await node.settle(await node.claim_one())
    held = await node.claim_one()
    pruned = await node.lane.prune(before=node.now, limit=100)
    assert pruned == 2
    left = await node.inbound.list(session_id="s")
    assert [(message.id, message.status) for message in left] == [
        (puts[1].id, "delivered"),
        (puts[2].id, "processing"),
        (puts[3].id, "pending"),
    ]
    assert await node.settle(held)


async def test_pruning_is_bounded_and_goes_on_where_it_stopped(node: Node) -> None:
    await node.open("s")
    for number in range(10):
        await node.put("s", str(number))
    await node.sessions.close("s")
    node.clock.advance(1)
    assert [await node.lane.prune(before=node.now, limit=4) for _ in range(4)] == [4, 4, 2, 0]


async def test_each_origin_is_kept_for_its_own_time(node: Node) -> None:
    await node.open("s")
    for number in range(3):
        await node.put("s", str(number), origin="telegram")
        await node.put("s", str(number), origin="chat")
    await node.sessions.close("s")
    node.clock.advance(3600)
    pruned = await node.lane.prune_by_origin(
        lambda origin: node.now - timedelta(days=1 if origin == "telegram" else 0), latest=node.now, limit=100
    )
    assert pruned.deleted == 3
    assert {message.origin for message in await node.inbound.list(session_id="s")} == {"telegram"}


async def test_an_origin_that_is_kept_long_does_not_keep_the_others(node: Node) -> None:
    await node.open("s")
    await asyncio.gather(*(node.put("s", origin="whatsapp") for _ in range(1200)))
    await asyncio.gather(*(node.put("s", origin="chat") for _ in range(10)))
    await node.sessions.close("s")
    node.clock.advance(2 * 86400)
    deleted, more = 0, True
    while more:
        pruned = await node.lane.prune_by_origin(
            lambda origin: node.now - timedelta(days=30 if origin == "whatsapp" else 1),
            latest=node.now - timedelta(days=1),
        )
        deleted, more = deleted + pruned.deleted, pruned.more
    assert deleted == 10


async def test_a_pruned_source_id_can_be_used_again(node: Node) -> None:
    await node.open("s")
    first = await node.put("s", source_message_id="m")
    await node.settle(await node.claim_one())
    node.clock.advance(1)
    assert await node.lane.prune(before=node.now, limit=10) == 1
    second = await node.put("s", source_message_id="m")
    assert not second.duplicate
    assert second.id > first.id
    assert (await node.claim_one()).rows[0].id == second.id
