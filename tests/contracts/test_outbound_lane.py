"""What the outbound lane promises the engine, on every database."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from pillarbox.engine import Delivered, Failed, Retry, Room, Settlement, Skipped
from pillarbox.outbound.model import NewTenant, TenantSettings
from pillarbox.outbound.policy import OutboundPolicy
from pillarbox.outbound.settling import EXPIRED, WENT_AWAY
from tests.contracts.asleep import AsleepClock
from tests.contracts.outbound_boxes import (
    OutboundNode,
    accepted,
    another,
    outbound_node_at,
    rejected,
    transient,
    unknown,
)

LEASE = 61.0


@pytest.fixture
async def node(url: str) -> AsyncIterator[OutboundNode]:
    async with outbound_node_at(url) as here:
        await here.tenant("acme")
        yield here


@pytest.fixture
async def other(node: OutboundNode) -> AsyncIterator[OutboundNode]:
    async with another(node) as there:
        yield there


# Order and fairness


async def test_priority_then_due_time_then_age_decide_within_a_tenant(node: OutboundNode) -> None:
    due_later = await node.put(priority=5, send_at=node.later(1))
    oldest = await node.put()
    younger = await node.put()
    urgent = await node.put(priority=0)
    node.clock.advance(1)
    due_now = await node.put(priority=5)
    assert await node.claimed_ids() == [urgent, due_later, due_now, oldest, younger]


async def test_tenants_take_turns_however_much_one_of_them_has(node: OutboundNode) -> None:
    await node.tenant("bob", "cid")
    await node.put_many("acme", 10)
    await node.put_many("bob", 3)
    await node.put_many("cid", 3)
    taken = Counter(strand.destination for strand in await node.claim(6))
    assert taken == {"acme": 2, "bob": 2, "cid": 2}


async def test_slots_that_do_not_divide_evenly_still_reach_every_tenant(node: OutboundNode) -> None:
    await node.tenant("bob", "cid")
    for tenant in ("acme", "bob", "cid"):
        await node.put_many(tenant, 20)
    taken: Counter[str] = Counter()
    for _ in range(6):
        taken.update(strand.destination for strand in await node.claim(4))
    assert taken == {"acme": 8, "bob": 8, "cid": 8}


async def test_every_one_of_many_tenants_has_its_turn(node: OutboundNode) -> None:
    tenants = [f"t{number:03}" for number in range(100)]
    await node.tenant(*tenants)
    for tenant in tenants:
        await node.put_many(tenant, 6)
    first: Counter[str] = Counter()
    for _ in range(3):
        first.update(strand.destination for strand in await node.claim(100))
    assert len(first) == 100


async def test_one_slot_at_a_time_goes_round_all_tenants(node: OutboundNode) -> None:
    await node.tenant("bob", "cid")
    for tenant in ("acme", "bob", "cid"):
        await node.put_many(tenant, 4)
    order = [(await node.claim(1))[0].destination for _ in range(6)]
    assert sorted(order[:3]) == sorted(order[3:]) == ["acme", "bob", "cid"]


async def test_a_tenant_that_fills_its_room_is_passed_over(node: OutboundNode) -> None:
    await node.tenant("bob")
    await node.put_many("acme", 5)
    bobs = await node.put("bob")
    room = Room(4, 3, {"acme": 3})
    assert [strand.key for strand in await node.claim(room=room)] == [bobs]


async def test_no_tenant_gets_more_than_its_share_of_the_room(node: OutboundNode) -> None:
    await node.put_many("acme", 10)
    assert len(await node.claim(room=Room(8, 6))) == 6


async def test_two_nodes_claiming_at_once_never_take_the_same_message(node: OutboundNode, other: OutboundNode) -> None:
    await node.tenant("bob")
    ids = await node.put_many("acme", 20) + await node.put_many("bob", 20)
    taken = await asyncio.gather(*(claimer.claimed_ids(5) for claimer in (node, other) * 5))
    claimed = [message_id for some in taken for message_id in some]
    while more := await node.claimed_ids(5):
        claimed += more
    assert sorted(claimed) == sorted(ids)


async def test_no_more_is_claimed_than_there_are_slots(node: OutboundNode) -> None:
    await node.put_many("acme", 5)
    assert len(await node.claim(3)) == 3
    assert len(await node.claim(3)) == 2
    assert await node.claim(3) == []


async def test_a_claim_shows_the_attempt_while_it_runs(node: OutboundNode) -> None:
    message_id = await node.put()
    node.clock.advance(2)
    strand = await node.claim_one()
    shown = await node.get(message_id)
    assert (shown.status, shown.attempt_count, shown.last_attempt_at) == ("processing", 1, node.now)
    (attempt,) = shown.attempts
    assert (attempt.attempt, attempt.started_at, attempt.finished_at, attempt.outcome) == (1, node.now, None, None)
    parcel = strand.rows[0]
    assert (parcel.to_address, parcel.subject, parcel.body_text) == ("ann@example.com", "Hello", "How are you?")


# Scheduled and expiring


async def test_a_scheduled_message_goes_exactly_when_it_is_due(node: OutboundNode) -> None:
    message_id = await node.put(send_at=node.later(5))
    assert await node.lane.next_due(now=node.now) == node.later(5)
    node.clock.advance(4.999999)
    assert await node.claim() == []
    node.clock.advance(0.000001)
    assert await node.claimed_ids() == [message_id]


async def test_a_flood_that_falls_due_is_made_ready_in_bounded_steps(node: OutboundNode) -> None:
    await node.sql(
        """INSERT INTO message_queue (message_id, tenant_id, channel, state, priority, next_attempt_at, last_attempt, contacts)
        WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 2500)
        SELECT 'm' || n, 'acme', 'email', 'scheduled', 500, :at::instant, 5, '["x"]' FROM c""",
        at=node.later(1),
    )
    node.clock.advance(2)
    ready = []
    for _ in range(4):
        assert await node.claim(room=Room(1, 1, {"acme": 1})) == []
        ((count,),) = await node.sql("SELECT count(*) FROM message_queue WHERE state = 'scheduled'")
        ready.append(count)
    assert ready == [1500, 500, 0, 0]
    await node.sql("DELETE FROM message_queue WHERE message_id LIKE 'm%'")


async def test_what_expired_is_never_sent_and_says_so(node: OutboundNode) -> None:
    at_once = await node.put(expires_at=node.later(5))
    scheduled = await node.put(send_at=node.later(5), expires_at=node.later(5))
    lasting = await node.put(expires_at=node.later(6))
    assert await node.lane.next_due(now=node.now) is not None
    node.clock.advance(5)
    assert await node.claimed_ids() == [lasting]
    for message_id in (at_once, scheduled):
        ended = await node.get(message_id)
        assert (ended.status, ended.error_message, ended.attempt_count) == ("expired", EXPIRED, 0)
        assert [event.type for event in ended.events] == ["queued", "expired"]


async def test_however_many_expire_at_once_none_of_them_is_sent(node: OutboundNode) -> None:
    for batch in range(3):
        await asyncio.gather(*(node.put(expires_at=node.later(5 + batch)) for _ in range(250)))
    node.clock.advance(60)
    sent = [message_id for _ in range(8) for message_id in await node.claimed_ids(200)]
    assert sent == []
    assert await node.sql("SELECT count(*) FROM message_queue") == [(0,)]


async def test_a_message_that_expired_while_its_sender_died_is_not_sent_again(node: OutboundNode) -> None:
    message_id = await node.put(expires_at=node.later(30))
    await node.claim_one()
    node.clock.advance(LEASE)
    assert await node.claim() == []
    assert await node.claim() == []
    ended = await node.get(message_id)
    assert (ended.status, ended.attempt_count, len(ended.attempts)) == ("expired", 1, 1)


async def test_what_expires_while_it_is_being_sent_is_left_to_its_attempt(node: OutboundNode) -> None:
    message_id = await node.put(expires_at=node.later(5))
    strand = await node.claim_one()
    node.clock.advance(6)
    assert await node.claim() == []
    assert await node.settle(strand)
    assert await node.status_of(message_id) == ["sent"]


# Caps


async def test_a_cap_holds_across_two_nodes_and_shows_when_it_goes_on(node: OutboundNode, other: OutboundNode) -> None:
    await node.tenant("slow", rate=60)
    await node.put_many("slow", 5)
    assert len([*await node.claim(), *await other.claim()]) == 1
    rate = (await node.outbound.tenants.get("slow")).rate
    assert rate is not None
    assert (rate.per_minute, rate.waits_until) == (60, node.later(1))
    assert await node.claim() == []
    assert await node.lane.next_due(now=node.now) == node.later(1)
    node.clock.advance(0.999999)
    assert [*await other.claim(), *await node.claim()] == []
    node.clock.advance(0.000001)
    assert len([*await other.claim(), *await node.claim()]) == 1


async def test_two_nodes_at_once_keep_a_cap_together(node: OutboundNode, other: OutboundNode) -> None:
    await node.tenant("slow", rate=600)
    await node.put_many("slow", 30)
    taken = await asyncio.gather(*(claimer.claim(30) for claimer in (node, other) * 4))
    assert sum(map(len, taken)) == 10


async def test_a_cap_for_all_tenants_is_lifted_where_a_tenant_has_none(url: str) -> None:
    async with outbound_node_at(url, OutboundPolicy(rate_per_minute=60)) as node:
        await node.tenant("capped")
        await node.tenant("free", rate=0)
        await node.put_many("capped", 3)
        await node.put_many("free", 3)
        assert Counter(strand.destination for strand in await node.claim()) == {"capped": 1, "free": 3}


async def test_tenants_at_their_cap_do_not_hold_others_back(node: OutboundNode) -> None:
    capped = [f"a{number:03}" for number in range(70)]
    await node.tenant(*capped, rate=1)
    for tenant in capped:
        await node.put_many(tenant, 2)
    while await node.claim(200):
        pass
    message_id = await node.put("acme")
    for _ in range(3):
        if await node.claimed_ids(200) == [message_id]:
            break
        due = await node.lane.next_due(now=node.now)
        assert due is not None
        assert due <= node.now
    assert await node.status_of(message_id) == ["processing"]


async def test_one_free_slot_is_not_wasted_on_a_tenant_at_its_cap(node: OutboundNode) -> None:
    await node.tenant("aa", rate=1)
    await node.put_many("aa", 3)
    assert len(await node.claim(1)) == 1
    await node.claim(1)
    first, second = await node.put("acme"), await node.put("acme")
    assert [await node.claimed_ids(1), await node.claimed_ids(1)] == [[first], [second]]


async def test_saving_a_tenant_again_does_not_give_it_a_new_burst(node: OutboundNode) -> None:
    await node.tenant("slow", rate=1)
    await node.put_many("slow", 2)
    assert len(await node.claim()) == 1
    await node.tenant("slow", rate=1)
    assert await node.claim() == []
    node.clock.advance(60)
    assert len(await node.claim()) == 1


async def test_a_raised_cap_counts_soon(node: OutboundNode) -> None:
    await node.tenant("slow", rate=1)
    await node.put_many("slow", 9)
    assert len(await node.claim()) == 1
    assert await node.claim() == []
    await node.outbound.tenants.put("slow", NewTenant(settings=TenantSettings(rate_per_minute=300)))
    node.clock.advance(1)
    assert len(await node.claim()) == 5


# Settling


async def test_an_accepted_message_is_sent_or_delivered_with_what_its_provider_said(node: OutboundNode) -> None:
    sent, delivered = await node.put(), await node.put()
    first, second = await node.claim()
    node.clock.advance(1)
    assert await node.settle(first, accepted(provider_msg_id="p1", status_code=202))
    assert await node.settle(second, accepted(delivered=True))
    message = await node.get(sent)
    assert (message.status, message.sent_at, message.delivered_at) == ("sent", node.now, None)
    assert (message.provider, message.provider_msg_id, message.error_message) == ("sandbox", "p1", None)
    (attempt,) = message.attempts
    assert (attempt.outcome, attempt.status_code, attempt.finished_at) == ("accepted", 202, node.now)
    assert attempt.started_at == node.later(-1)
    message = await node.get(delivered)
    assert (message.status, message.sent_at, message.delivered_at) == ("delivered", node.now, node.now)
    assert message.next_attempt_at is None


async def test_a_rejected_message_fails_at_once(node: OutboundNode) -> None:
    message_id = await node.put()
    assert await node.settle(await node.claim_one(), rejected("No such mailbox.", status_code=550))
    message = await node.get(message_id)
    assert (message.status, message.failed_at, message.attempt_count) == ("failed", node.now, 1)
    assert (message.error_message, message.next_attempt_at, message.sent_at) == ("No such mailbox.", None, None)
    assert message.attempts[0].outcome == "rejected"


async def test_a_transient_failure_waits_exactly_until_its_time(node: OutboundNode) -> None:
    message_id = await node.put()
    at = node.now + timedelta(seconds=60, microseconds=1)
    assert await node.settle(await node.claim_one(), transient(at, status_code=429))
    message = await node.get(message_id)
    assert (message.status, message.next_attempt_at, message.error_message) == ("retrying", at, "Busy.")
    assert (message.attempt_count, len(message.attempts)) == (1, 1)
    node.clock.advance(60)
    assert await node.claim() == []
    assert await node.lane.next_due(now=node.now) == at
    node.clock.advance(0.000001)
    assert (await node.claim_one()).rows[0].attempt_count == 2


async def test_an_error_of_before_is_gone_once_it_is_sent(node: OutboundNode) -> None:
    message_id = await node.put()
    await node.settle(await node.claim_one(), transient(node.now))
    await node.settle(await node.claim_one())
    message = await node.get(message_id)
    assert (message.status, message.error_message, message.attempt_count) == ("sent", None, 2)
    assert [attempt.outcome for attempt in message.attempts] == ["transient", "accepted"]


async def test_an_attempt_whose_end_nobody_knows_is_tried_again(node: OutboundNode) -> None:
    message_id = await node.put()
    await node.settle(await node.claim_one(), unknown(node.later(5)))
    message = await node.get(message_id)
    assert (message.status, message.attempts[0].outcome) == ("retrying", "unknown")


async def test_the_engines_own_verdicts_leave_open_what_became_of_the_message(node: OutboundNode) -> None:
    timed_out, broken, done = [await node.put() for _ in range(3)]
    first, second, third = await node.claim()
    await node.settle(first, Retry("It took too long."))
    await node.settle(second, Failed("It broke."))
    await node.settle(third, Delivered())
    assert await node.status_of(timed_out, broken, done) == ["retrying", "failed", "sent"]
    assert (await node.get(timed_out)).attempts[0].outcome == "unknown"
    await node.check_agreement()


async def test_the_last_of_its_attempts_fails_for_good(node: OutboundNode) -> None:
    message_id = await node.put(max_attempts=3)
    for _ in range(3):
        await node.settle(await node.claim_one(), transient(node.now))
    message = await node.get(message_id)
    assert (message.status, message.attempt_count, message.failed_at) == ("failed", 3, node.now)
    assert [attempt.attempt for attempt in message.attempts] == [1, 2, 3]
    assert await node.claim() == []


async def test_a_last_chance_is_one_more_attempt_and_no_further_one(node: OutboundNode) -> None:
    message_id = await node.put(max_attempts=5)
    await node.settle(await node.claim_one(), transient(node.now, last_chance=True))
    assert await node.status_of(message_id) == ["retrying"]
    await node.settle(await node.claim_one(), transient(node.now))
    message = await node.get(message_id)
    assert (message.status, message.attempt_count) == ("failed", 2)


async def test_a_last_chance_gives_no_attempt_beyond_the_most(node: OutboundNode) -> None:
    message_id = await node.put(max_attempts=1)
    await node.settle(await node.claim_one(), transient(node.now, last_chance=True))
    assert await node.status_of(message_id) == ["failed"]


async def test_a_recipient_whom_the_provider_calls_unsubscribed_gets_no_further_message(node: OutboundNode) -> None:
    first, second = await node.put(), await node.put()
    strand = (await node.claim(1))[0]
    settlement = Settlement(strand, strand.rows[0], rejected(opt_out=True))
    turn = await node.lane.turn([settlement], node.lease, room=Room(4, 4), now=node.now)
    assert turn.claimed == []
    assert await node.status_of(first, second) == ["failed", "canceled"]
    (opt_out,) = await node.outbound.opt_outs("acme")
    assert (opt_out.contact, opt_out.channel) == ("ann@example.com", "email")


async def test_many_whom_the_provider_calls_unsubscribed_get_no_further_message_from_a_drain(
    node: OutboundNode,
) -> None:
    contacts = [f"user{number}@example.com" for number in range(40)]
    for _ in range(2):
        for contact in contacts:
            await node.put(to=contact)
    strands = await node.claim(len(contacts))
    settlements = [Settlement(strand, strand.rows[0], rejected(opt_out=True)) for strand in strands]
    assert not node.lane.apart(settlements)
    accepting = [Settlement(strand, strand.rows[0], accepted()) for strand in strands]
    assert node.lane.apart(accepting) is (node.database.dialect == "postgres")
    turn = await node.lane.turn(settlements, node.lease, room=Room(64, 64), now=node.now)
    assert (turn.claimed, turn.lost) == ([], [])
    await node.check_agreement()


async def test_a_skipped_message_gets_its_attempt_and_its_place_back(node: OutboundNode) -> None:
    first = await node.put()
    node.clock.advance(1)
    second = await node.put()
    node.clock.advance(1)
    strand = (await node.claim(1))[0]
    await node.settle(strand, Skipped("", at=node.now))
    message = await node.get(first)
    assert (message.status, message.attempt_count, message.attempts) == ("pending", 0, ())
    await node.check_agreement()
    assert await node.claimed_ids() == [first, second]
    assert (await node.get(first)).attempt_count == 1


async def test_a_skipped_retry_keeps_its_error_and_its_attempts(node: OutboundNode) -> None:
    message_id = await node.put()
    await node.settle(await node.claim_one(), transient(node.now))
    await node.lane.release([await node.claim_one()], now=node.now)
    message = await node.get(message_id)
    assert (message.status, message.attempt_count, message.error_message) == ("retrying", 1, "Busy.")


async def test_settling_and_claiming_the_next_share_a_turn(node: OutboundNode) -> None:
    await node.put()
    second = await node.put()
    strand = (await node.claim(1))[0]
    turn = await node.lane.turn(
        [Settlement(strand, strand.rows[0], accepted())], node.lease, room=Room(1, 1), now=node.now
    )
    assert [strand.key for strand in turn.claimed] == [second]
    assert turn.lost == []


# Leases and fencing


async def test_a_report_that_comes_late_changes_nothing(node: OutboundNode, other: OutboundNode) -> None:
    message_id = await node.put()
    late = await node.claim_one()
    node.clock.advance(LEASE)
    again = await other.claim_one()
    before = await node.everything()
    assert not await node.settle(late, accepted())
    assert not await node.settle(late, rejected(opt_out=True))
    assert await node.everything() == before
    assert await other.settle(again, accepted())
    assert not await node.settle(late, transient(node.now))
    message = await node.get(message_id)
    assert (message.status, message.attempt_count) == ("sent", 2)
    assert [attempt.outcome for attempt in message.attempts] == ["unknown", "accepted"]


async def test_a_report_after_the_rescue_and_before_the_next_claim_is_late_too(node: OutboundNode) -> None:
    message_id = await node.put()
    await node.tenant("aa")
    late = await node.claim_one()
    node.clock.advance(LEASE)
    await node.put("aa", priority=0)
    await node.claim(room=Room(1, 1, {"acme": 1}))
    assert await node.status_of(message_id) == ["retrying"]
    assert not await node.settle(late)
    assert await node.status_of(message_id) == ["retrying"]


async def test_a_report_twice_is_taken_once(node: OutboundNode) -> None:
    message_id = await node.put()
    strand = await node.claim_one()
    assert await node.settle(strand)
    assert not await node.settle(strand, rejected())
    assert await node.status_of(message_id) == ["sent"]


async def test_a_renewed_hold_outlives_its_first_lease(node: OutboundNode, other: OutboundNode) -> None:
    await node.put_many("acme", 2)
    kept, dropped = await node.claim()
    node.clock.advance(LEASE - 2)
    assert list(node.lane.renew([kept], node.lease, now=node.now)) == [kept]
    node.clock.advance(2)
    assert [strand.key for strand in await other.claim()] == [dropped.key]
    assert list(node.lane.held([kept, dropped])) == [kept]
    assert list(node.lane.renew([kept, dropped], node.lease, now=node.now)) == [kept]
    late = await node.lane.settle(
        [Settlement(strand, strand.rows[0], accepted()) for strand in (kept, dropped)], now=node.now
    )
    assert [settlement.strand for settlement in late] == [dropped]
    assert await node.status_of(kept.key, dropped.key) == ["sent", "processing"]


async def test_what_a_dead_process_held_is_unknown_and_tried_again_at_once(node: OutboundNode) -> None:
    message_id = await node.put()
    await node.claim_one()
    started = node.now
    node.clock.advance(LEASE)
    strand = await node.claim_one()
    assert (strand.key, strand.rows[0].attempt_count) == (message_id, 2)
    first = (await node.get(message_id)).attempts[0]
    assert (first.outcome, first.error, first.started_at) == ("unknown", WENT_AWAY, started)
    assert first.finished_at == node.now


async def test_a_message_that_kills_every_sender_ends(node: OutboundNode) -> None:
    message_id = await node.put(max_attempts=2)
    for _ in range(2):
        await node.claim_one()
        node.clock.advance(LEASE)
    assert await node.claim() == []
    message = await node.get(message_id)
    assert (message.status, message.error_message, message.failed_at) == ("failed", WENT_AWAY, node.now)
    assert [attempt.outcome for attempt in message.attempts] == ["unknown", "unknown"]


async def test_what_is_given_back_for_later_says_when(node: OutboundNode) -> None:
    message_id = await node.put()
    assert await node.settle(await node.claim_one(), Skipped("", at=node.later(5)))
    found = await node.get(message_id)
    assert (found.status, found.attempt_count, found.next_attempt_at) == ("pending", 0, node.later(5))
    node.clock.advance(5)
    assert await node.claimed_ids() == [message_id]


async def test_what_a_lost_answer_claimed_is_found_and_given_back_as_it_was(node: OutboundNode) -> None:
    message_id = await node.put(max_attempts=3)
    await node.settle(await node.claim_one(), transient(node.now))
    await node.claim_one()
    (orphan,) = await node.lane.held_by(node.lease)
    assert orphan.key == message_id
    await node.lane.release([orphan], now=node.now)
    assert (await node.get(message_id)).attempt_count == 1
    for _ in range(2):
        await node.settle(await node.claim_one(), transient(node.now))
    message = await node.get(message_id)
    assert (message.status, message.attempt_count) == ("failed", 3)


async def test_a_node_finds_only_its_own_holds(node: OutboundNode, other: OutboundNode) -> None:
    mine = await node.put()
    await node.claim_one()
    theirs = await node.put()
    await other.claim_one()
    assert [strand.key for strand in await node.lane.held_by(node.lease)] == [mine]
    assert [strand.key for strand in await other.lane.held_by(other.lease)] == [theirs]


async def test_the_next_look_is_for_a_due_message_a_lease_or_an_expiry(node: OutboundNode) -> None:
    assert await node.lane.next_due(now=node.now) is None
    await node.put(send_at=node.later(500))
    assert await node.lane.next_due(now=node.now) == node.later(500)
    await node.put(send_at=node.later(600), expires_at=node.later(601))
    assert await node.lane.next_due(now=node.now) == node.later(500)
    await node.put()
    assert (await node.lane.next_due(now=node.now) or node.later(1)) <= node.now
    await node.claim_one()
    assert await node.lane.next_due(now=node.now) == node.later(60)


async def test_a_full_tenant_is_no_reason_to_look_again_and_again(node: OutboundNode) -> None:
    await node.put_many("acme", 2)
    await node.claim(1)
    looked = node.now
    assert await node.claim(room=Room(1, 1, {"acme": 1})) == []
    node.clock.advance(0.1)
    due = await node.lane.next_due(now=node.now)
    assert due is not None
    assert due <= looked


async def test_the_dead_are_buried_without_waiting_for_their_leases(node: OutboundNode, other: OutboundNode) -> None:
    dead, alive = await node.put(), None
    await node.claim_one()
    alive = await node.put()
    await other.claim_one()
    assert not await other.lane.bury(lambda holder: holder == "nobody", now=node.now)
    assert await other.lane.bury(lambda holder: holder == "here", now=node.now)
    assert await other.claimed_ids() == [dead]
    assert await node.status_of(alive) == ["processing"]


async def test_a_lease_that_a_wrong_clock_made_too_long_is_cut(node: OutboundNode) -> None:
    message_id = await node.put()
    await node.claim_one()
    await node.sql("UPDATE message_queue SET lease_until = :at::instant", at=node.later(1_000_000))
    await node.lane.straighten(clock=node.clock, lease=node.lease.length)
    assert await node.claim() == []
    node.clock.advance(LEASE)
    assert await node.claimed_ids() == [message_id]


async def test_who_stood_still_before_it_looked_cuts_no_hold_that_others_took_meanwhile(node: OutboundNode) -> None:
    message_id = await node.put()
    await node.claim_one()
    clock = AsleepClock(node.clock)
    await node.lane.straighten(clock=clock, lease=node.lease.length)
    assert clock.woke
    node.clock.advance(LEASE - 2)
    assert await node.claim() == []
    node.clock.advance(2)
    assert await node.claimed_ids() == [message_id]


# Beginning late


async def test_whoever_begins_late_is_waited_for_as_if_claimed_then(node: OutboundNode) -> None:
    message_id = await node.put(expires_at=node.later(30))
    strand = await node.claim_one()
    node.clock.advance(10)
    assert await node.lane.begin(strand.rows[0], node.now)
    assert (await node.get(message_id)).attempts[0].started_at == node.now
    await node.settle(strand)
    assert (await node.get(message_id)).attempts[0].started_at == node.now - timedelta(seconds=10)


@pytest.mark.parametrize("channel", ["email", "all"])
async def test_nobody_begins_who_sends_to_an_opted_out_contact(node: OutboundNode, channel: str) -> None:
    await node.put(cc=["bob@example.com"])
    strand = await node.claim_one()
    node.clock.advance(10)
    await node.outbound.opt_out("acme", "bob@example.com", channel)
    assert not await node.lane.begin(strand.rows[0], node.now)


async def test_an_opt_out_of_another_channel_keeps_nothing_back(node: OutboundNode) -> None:
    await node.put()
    strand = await node.claim_one()
    node.clock.advance(10)
    await node.outbound.opt_out("acme", "ann@example.com", "inapp")
    assert await node.lane.begin(strand.rows[0], node.now)


async def test_nobody_begins_what_another_node_took_over(node: OutboundNode, other: OutboundNode) -> None:
    await node.put()
    strand = await node.claim_one()
    node.clock.advance(LEASE)
    again = await other.claim_one()
    assert not await node.lane.begin(strand.rows[0], node.now)
    assert await other.lane.begin(again.rows[0], node.now)
    await other.settle(again)
    assert not await other.lane.begin(again.rows[0], node.now)


async def test_nobody_begins_what_has_expired(node: OutboundNode) -> None:
    await node.put(expires_at=node.later(5))
    strand = await node.claim_one()
    node.clock.advance(5)
    assert not await node.lane.begin(strand.rows[0], node.now)


async def test_of_many_that_begin_late_at_once_each_has_its_own_answer(node: OutboundNode) -> None:
    kept = [await node.put(to="ann@example.com"), await node.put(to="cid@example.com")]
    await node.put(to="bob@example.com")
    strands = await node.claim()
    node.clock.advance(10)
    await node.outbound.opt_out("acme", "bob@example.com", "email")
    answers = await asyncio.gather(*(node.lane.begin(strand.rows[0], node.now) for strand in strands))
    assert sorted(strand.key for strand, begun in zip(strands, answers, strict=True) if begun) == sorted(kept)


async def test_what_expired_in_the_hands_of_a_dead_process_takes_nobodys_place(
    node: OutboundNode, other: OutboundNode
) -> None:
    await node.tenant("bob")
    expired = await node.put(expires_at=node.later(30))
    await node.claim_one()
    node.clock.advance(LEASE)
    waiting = await node.put("bob")
    assert await other.claimed_ids(slots=1) == [waiting]
    assert await node.status_of(expired) == ["expired"]
