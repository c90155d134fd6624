"""What operators do to messages and see of them, on every database."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from pillarbox.errors import NotCancelable, NotFound, NotRetryable, OptedOut, TenantBusy
from pillarbox.outbound.model import NewAttachment, NewTenant, Status
from pillarbox.outbound.reading import Filter
from tests.contracts.outbound_boxes import OutboundNode, accepted, outbound_node_at, rejected, transient, unknown

LEASE = 61.0


@pytest.fixture
async def node(url: str) -> AsyncIterator[OutboundNode]:
    async with outbound_node_at(url) as here:
        await here.tenant("acme")
        yield here


# Cancel and retry


async def test_what_waits_can_be_canceled(node: OutboundNode) -> None:
    pending, scheduled = await node.put(), await node.put(send_at=node.later(5))
    retrying = await node.put(priority=0)
    strand = (await node.claim(1))[0]
    await node.settle(strand, transient(node.later(60)))
    for message_id in (pending, scheduled, retrying):
        assert (await node.outbound.cancel(message_id)).status == "canceled"
    assert (await node.get(retrying)).attempt_count == 1
    node.clock.advance(100)
    assert await node.claim() == []


async def test_what_is_being_sent_or_has_ended_cannot_be_canceled(node: OutboundNode) -> None:
    message_id = await node.put()
    strand = await node.claim_one()
    with pytest.raises(NotCancelable, match="being sent"):
        await node.outbound.cancel(message_id)
    await node.settle(strand)
    with pytest.raises(NotCancelable, match="sent"):
        await node.outbound.cancel(message_id)


async def test_nobody_acts_on_another_tenants_message(node: OutboundNode) -> None:
    await node.tenant("bob")
    message_id = await node.put()
    for act in (node.outbound.cancel, node.outbound.retry, node.outbound.get):
        with pytest.raises(NotFound):
            await act(message_id, tenant_id="bob")
    assert await node.status_of(message_id) == ["pending"]


async def test_a_retry_goes_on_counting_and_has_as_many_further_attempts(node: OutboundNode) -> None:
    message_id = await node.put(max_attempts=2)
    for _ in range(2):
        await node.settle(await node.claim_one(), transient(node.now))
    again = await node.outbound.retry(message_id)
    assert (again.status, again.attempt_count, again.next_attempt_at) == ("pending", 2, node.now)
    assert (again.failed_at, again.error_message) == (None, None)
    assert [event.type for event in again.events] == ["queued", "retried"]
    for _ in range(2):
        await node.settle(await node.claim_one(), transient(node.now))
    message = await node.get(message_id)
    assert (message.status, message.attempt_count) == ("failed", 4)
    assert [attempt.attempt for attempt in message.attempts] == [1, 2, 3, 4]


async def test_an_expired_and_a_canceled_message_can_be_tried_again(node: OutboundNode) -> None:
    expired, canceled = await node.put(expires_at=node.later(1)), await node.put(send_at=node.later(500))
    await node.outbound.cancel(canceled)
    node.clock.advance(2)
    assert await node.claim() == []
    for message_id in (expired, canceled):
        await node.outbound.retry(message_id)
    assert sorted(await node.claimed_ids()) == sorted([expired, canceled])


async def test_what_waits_was_sent_or_is_being_sent_is_not_retried(node: OutboundNode) -> None:
    message_id = await node.put()
    with pytest.raises(NotRetryable):
        await node.outbound.retry(message_id)
    strand = await node.claim_one()
    with pytest.raises(NotRetryable, match="being sent"):
        await node.outbound.retry(message_id)
    await node.settle(strand)
    with pytest.raises(NotRetryable, match="sent"):
        await node.outbound.retry(message_id)


async def test_an_old_report_does_not_count_for_a_retried_message(node: OutboundNode) -> None:
    message_id = await node.put(max_attempts=1)
    late = await node.claim_one()
    node.clock.advance(LEASE)
    await node.claim()
    await node.outbound.retry(message_id)
    again = await node.claim_one()
    assert not await node.settle(late, accepted())
    assert await node.settle(again, rejected())
    assert await node.status_of(message_id) == ["failed"]


@pytest.mark.parametrize("copy", [False, True])
async def test_a_retry_to_someone_who_opted_out_is_refused(node: OutboundNode, copy: bool) -> None:
    message_id = await node.put(cc=("cc@example.com",))
    await node.fail(message_id)
    await node.outbound.opt_out("acme", "cc@example.com" if copy else "ann@example.com", "email")
    with pytest.raises(OptedOut):
        await node.outbound.retry(message_id)
    assert await node.status_of(message_id) == ["failed"]


async def test_an_opt_out_after_a_retry_stops_it_for_copies_too(node: OutboundNode) -> None:
    message_id = await node.put(cc=("cc@example.com",))
    await node.fail(message_id)
    await node.outbound.retry(message_id)
    await node.outbound.opt_out("acme", "cc@example.com")
    assert await node.claim() == []
    assert await node.status_of(message_id) == ["canceled"]


async def test_an_opt_out_does_not_claim_that_nothing_was_sent(node: OutboundNode) -> None:
    message_id = await node.put()
    await node.settle(await node.claim_one(), unknown(node.now))
    await node.outbound.opt_out("acme", "ann@example.com")
    assert await node.claim() == []
    told = (await node.get(message_id)).error_message
    assert told == "The recipient has opted out (all); nothing more is sent."


# Tenants that change or go


async def test_a_changed_cap_does_not_begin_a_new_minute(node: OutboundNode) -> None:
    await node.tenant("acme", rate=1)
    await node.put_many("acme", 3)
    assert len(await node.claim()) == 1
    for rate in (2, 1, 2):
        await node.tenant("acme", rate=rate)
        assert await node.claim() == []
    node.clock.advance(60)
    assert len(await node.claim()) > 0


async def test_a_tenant_with_messages_waiting_stays(node: OutboundNode) -> None:
    await node.put()
    with pytest.raises(TenantBusy):
        await node.outbound.tenants.delete("acme")


async def test_a_message_of_a_removed_tenant_is_not_retried(node: OutboundNode) -> None:
    message_id = await node.put()
    await node.fail(message_id)
    await node.sql("DELETE FROM tenants WHERE tenant_id = 'acme'")
    with pytest.raises(NotFound, match="acme"):
        await node.outbound.retry(message_id)
    assert await node.status_of(message_id) == ["failed"]


async def test_a_message_whose_tenant_went_while_it_came_in_ends_and_stops_nobody(node: OutboundNode) -> None:
    await node.tenant("bob")
    orphan, bobs = await node.put(), await node.put("bob")
    await node.sql("DELETE FROM tenants WHERE tenant_id = 'acme'")
    assert await node.claimed_ids() == [bobs]
    message = await node.get(orphan)
    assert (message.status, message.attempt_count) == ("canceled", 0)
    assert "tenant" in (message.error_message or "")


# Forgetting


async def test_nothing_of_a_forgotten_person_is_left_but_the_opt_out(node: OutboundNode) -> None:
    canaries = ("ann.canary@example.com", "subject-canary", "text-canary", "html-canary", "file-canary", "tag-canary")
    content: dict[str, Any] = {
        "subject": "subject-canary",
        "text": "text-canary",
        "html": "<p>html-canary</p>",
        "attachments": (NewAttachment(filename="file-canary.txt", content="aGk="),),
        "tags": ("tag-canary",),
    }
    to = canaries[0]
    sent, failed = await node.put(to=to, key="k1", **content), await node.put(to=to, **content)
    first, second = await node.claim()
    await node.settle(first, accepted())
    await node.settle(second, rejected())
    waiting = await node.put(to=to, send_at=node.later(500), **content)
    copied = await node.put(to="bob@example.com", cc=(to,), key="k2", **content)
    kept = await node.put(to="cid@example.com", text="kept")
    await node.outbound.opt_out("acme", to, reason="text-canary")
    assert await node.outbound.forget("acme", to.upper()) == 4
    told = await node.everything()
    assert [canary for canary in canaries if canary in told] == []
    assert await node.status_of(sent, failed, waiting, copied, kept) == [
        "sent",
        "failed",
        "canceled",
        "canceled",
        "pending",
    ]
    assert (await node.get(sent)).to_address is None
    assert (await node.get(kept)).to_address == "cid@example.com"
    (opt_out,) = await node.outbound.opt_outs("acme")
    assert (opt_out.contact, opt_out.reason) == (None, None)
    with pytest.raises(OptedOut):
        await node.put(to=to)
    with pytest.raises(NotRetryable, match="forgotten"):
        await node.outbound.retry(failed)
    assert await node.outbound.forget("acme", to) == 1


async def test_no_error_is_left_of_a_forgotten_message_as_it_may_name_a_file(node: OutboundNode) -> None:
    names_a_file = "The attachment 'file-canary.pdf' is too large."
    ended, running = await node.put(max_attempts=2), await node.put(priority=200)
    first, second = await node.claim()
    await node.settle(first, transient(node.now, names_a_file))
    again = await node.claim_one()
    await node.settle(again, rejected(names_a_file))
    assert await node.outbound.forget("acme", "ann@example.com") == 2
    await node.settle(second, rejected(names_a_file))
    assert "file-canary" not in await node.everything()
    for message_id, attempts in ((ended, 2), (running, 1)):
        message = await node.get(message_id)
        assert (message.status, message.error_message) == ("failed", None)
        assert [attempt.error for attempt in message.attempts] == [None] * attempts


async def test_a_forgotten_person_s_own_spelling_is_gone_from_opt_outs_of_every_channel(node: OutboundNode) -> None:
    await node.outbound.tenants.put("acme", NewTenant(providers={"inapp": {"provider": "sandbox"}}))
    await node.outbound.opt_out("acme", "Bob@Example.com", "inapp")
    await node.outbound.opt_out("acme", "Bob@Example.com")
    await node.outbound.forget("acme", "Bob@Example.com")
    assert [opt_out.contact for opt_out in await node.outbound.opt_outs("acme")] == [None, None]


async def test_a_message_forgotten_while_it_was_sent_is_not_sent_again(node: OutboundNode) -> None:
    message_id = await node.put()
    strand = await node.claim_one()
    assert await node.outbound.forget("acme", "ann@example.com") == 1
    assert await node.settle(strand, transient(node.now))
    assert await node.claim() == []
    message = await node.get(message_id)
    assert (message.status, message.attempt_count, message.to_address) == ("canceled", 1, None)


async def test_a_provider_s_unsubscribe_after_the_forgetting_does_not_bring_the_address_back(
    node: OutboundNode,
) -> None:
    await node.put(to="canary@example.com")
    strand = await node.claim_one()
    await node.outbound.forget("acme", "canary@example.com")
    await node.settle(strand, rejected(opt_out=True))
    assert "canary@example.com" not in await node.everything()
    with pytest.raises(OptedOut):
        await node.put(to="canary@example.com")


async def test_forgetting_goes_on_until_all_of_many_messages_are_done(node: OutboundNode) -> None:
    await node.put_many("acme", 3)
    await node.sql(
        """INSERT INTO message_history (message_id, tenant_id, channel, status, max_attempts, priority, category, contact,
            to_address, tags, created_at, updated_at, options)
        SELECT 'm' || c.n, h.tenant_id, h.channel, 'sent', 5, 1, h.category, h.contact, h.to_address, h.tags, h.created_at,
            h.updated_at, h.options
        FROM (WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 1100) SELECT n FROM c) AS c,
            (SELECT * FROM message_history LIMIT 1) AS h"""
    )
    assert await node.outbound.forget("acme", "ann@example.com") == 1103
    assert "ann@example.com" not in await node.everything()


# Pruning


async def prune_some(node: OutboundNode) -> tuple[int, bool]:
    return await node.lane.prune_by_channel(lambda channel: node.now, latest=node.now, keys=node.now, limit=2)


async def test_only_what_ended_long_enough_ago_is_pruned_with_all_that_belongs_to_it(node: OutboundNode) -> None:
    old = await node.put(cc=("cc@example.com",))
    await node.settle(await node.claim_one())
    canceled = await node.put()
    await node.outbound.cancel(canceled)
    waiting = await node.put(send_at=node.later(100_000))
    node.clock.advance(100)
    young = await node.put()
    await node.fail(young)
    before = node.later(-50)
    assert await node.lane.prune(before=before) == 2
    assert await node.lane.prune(before=before) == 0
    assert await node.status_of(waiting, young) == ["pending", "failed"]
    for table in ("message_history", "message_attempt", "message_event", "message_copy"):
        assert await node.sql(f"SELECT message_id FROM {table} WHERE message_id IN ('{old}', '{canceled}')") == []


async def test_the_retention_begins_when_a_message_ends(node: OutboundNode) -> None:
    message_id = await node.put(send_at=node.later(1000))
    node.clock.advance(1000)
    await node.settle(await node.claim_one())
    assert await node.lane.prune(before=node.later(-1)) == 0
    node.clock.advance(2)
    assert await node.lane.prune(before=node.later(-1)) == 1
    with pytest.raises(NotFound):
        await node.get(message_id)


async def test_a_prune_goes_stretch_by_stretch_past_what_waits(node: OutboundNode) -> None:
    await node.put_many("acme", 5, send_at=node.later(9000))
    ended = await node.put_many("acme", 5)
    for strand in await node.claim():
        await node.settle(strand)
    node.clock.advance(10)
    deleted, more = await prune_some(node)
    assert (deleted, more) == (2, True)
    while more:
        further, more = await prune_some(node)
        deleted += further
    assert deleted == len(ended)


async def test_a_key_is_forgotten_after_the_retention_and_not_before(node: OutboundNode) -> None:
    first = await node.put(key="k")
    await node.settle(await node.claim_one())
    node.clock.advance(timedelta(days=89).total_seconds())
    await node.outbound.prune()
    assert await node.put(key="k") == first
    node.clock.advance(timedelta(days=2).total_seconds())
    await node.outbound.prune()
    assert await node.sql("SELECT count(*) FROM idempotency_key") == [(0,)]
    assert await node.put(key="k") != first


# Lists and counts


async def test_a_list_shows_the_newest_first_page_by_page(node: OutboundNode) -> None:
    ids = await node.put_many("acme", 5)
    seen: list[str] = []
    before = ""
    while page := await node.outbound.list(Filter(tenant_id="acme"), limit=2, before=before):
        seen += [item.message_id for item in page]
        before = seen[-1]
    assert seen == ids[::-1]
    assert [item.message_id for item in await node.outbound.list(limit=100)] == ids[::-1]


async def test_each_status_is_found_by_its_name(node: OutboundNode) -> None:
    await node.tenant("bob")
    ids: dict[Status, str] = {}
    claimed: tuple[Status, ...] = ("sent", "delivered", "failed", "retrying", "processing")
    for status in claimed:
        ids[status] = await node.put()
    sent, delivered, failed, retrying, _ = await node.claim()
    await node.settle(sent, accepted())
    await node.settle(delivered, accepted(delivered=True))
    await node.settle(failed, rejected())
    await node.settle(retrying, transient(node.later(60)))
    ids["expired"] = await node.put(expires_at=node.later(1))
    node.clock.advance(1)
    await node.claim()
    ids["canceled"] = await node.put()
    await node.outbound.cancel(ids["canceled"])
    ids["pending"] = await node.put()
    for tenant in ("acme", ""):
        for status, message_id in ids.items():
            found = await node.outbound.list(Filter(tenant_id=tenant, status=status))
            assert [(item.message_id, item.status) for item in found] == [(message_id, status)]
    assert await node.outbound.list(Filter(tenant_id="bob")) == []
    status_now = await node.outbound.status()
    assert (status_now.pending, status_now.processing, status_now.failed) == (1, 1, 1)


async def test_filters_for_channel_recipient_and_tag(node: OutboundNode) -> None:
    mail = await node.put(tags=("a", "b"))
    text = await node.put(to="+15005550006", channel="sms", subject=None, tags=("ab",))
    copied = await node.put(to="bob@example.com", tags=('q"', "x, y"))

    async def found(**wanted: Any) -> list[str]:
        return [item.message_id for item in await node.outbound.list(Filter(tenant_id="acme", **wanted))]

    assert await found(channel="sms") == [text]
    assert await found(contact=node.outbound.contact_hash("acme", "email", "ANN@example.com")) == [mail]
    assert await found(tag="b") == [mail]
    assert await found(tag="ab") == [text]
    assert await found(tag='q"') == [copied]
    assert await found(tag="x") == []
    assert await found(tag="q") == []
    assert await found(tag=",") == []
    assert await found(tag=", ") == []
    assert await found(tag=",\n") == []
    assert await found(tag="a", channel="sms") == []


async def test_the_status_tells_how_old_the_oldest_ready_message_is(node: OutboundNode) -> None:
    empty = await node.outbound.status()
    assert (empty.pending, empty.oldest_age_seconds) == (0, None)
    await node.put()
    await node.put(send_at=node.later(1000))
    node.clock.advance(7)
    told = await node.outbound.status()
    assert (told.pending, told.processing, told.failed, told.oldest_age_seconds) == (2, 0, 0, 7.0)
