"""What is on disk once a message was taken in, on every database."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import psycopg
import pytest

from pillarbox.errors import IdempotencyMismatch, InvalidInput, NotFound, OptedOut
from pillarbox.outbound.enqueue import Order, enqueue
from pillarbox.outbound.ids import new_id
from pillarbox.outbound.model import Checked, NewMessage, NewTenant, Queued
from tests.contracts.outbound_boxes import OutboundNode, another, outbound_node_at


@pytest.fixture
async def node(url: str) -> AsyncIterator[OutboundNode]:
    async with outbound_node_at(url) as here:
        await here.tenant("acme")
        yield here


@pytest.fixture
async def other(node: OutboundNode) -> AsyncIterator[OutboundNode]:
    async with another(node) as there:
        yield there


def order(tenant_id: str = "acme", text: str = "Hi", *, contact: str = "c1", key: str | None = None) -> Order:
    checked = Checked(channel="email", to="ann@example.com", contacts=("ann@example.com",), text=text)
    return Order(new_id(), tenant_id, checked, (contact,), 5, key=key, fingerprint=text if key else "")


async def store(node: OutboundNode, *orders: Order) -> list[Queued | Exception]:
    """Take messages in as one set, in this order."""
    return list(await node.database.write(partial(enqueue, orders, node.now)))


async def count(node: OutboundNode, table: str) -> int:
    ((rows,),) = await node.sql(f"SELECT count(*) FROM {table}")
    return int(rows)


async def test_a_message_is_pending_and_complete_once_it_was_taken(node: OutboundNode) -> None:
    message_id = await node.put(
        to="Ann@Example.COM ",
        cc=("bob@example.com",),
        priority=7,
        tags=("a", "b"),
        category="marketing",
        max_attempts=2,
    )
    message = await node.get(message_id)
    assert (message.status, message.to_address, message.priority) == ("pending", "ann@example.com", 7)
    assert (message.attempt_count, message.max_attempts, message.tags) == (0, 2, ("a", "b"))
    assert (message.created_at, message.next_attempt_at, message.category) == (node.now, node.now, "marketing")
    assert (message.subject, message.body_text, message.attempts) == ("Hello", "How are you?", ())
    assert [event.type for event in message.events] == ["queued"]


async def test_a_set_is_answered_one_by_one_in_its_order(node: OutboundNode) -> None:
    orders = [order(), order("nobody"), order(text="x", key="k"), order(text="x", key="k"), order(text="y", key="k")]
    first, second, third, fourth, fifth = await store(node, *orders)
    assert first == Queued(orders[0].message_id, "pending")
    assert isinstance(second, NotFound)
    assert third == Queued(orders[2].message_id, "pending")
    assert fourth == Queued(orders[2].message_id, "pending", replayed=True)
    assert isinstance(fifth, IdempotencyMismatch)
    assert [await count(node, table) for table in ("message_queue", "message_history", "idempotency_key")] == [2, 2, 1]


async def test_a_hundred_together_are_all_there(node: OutboundNode) -> None:
    ids = await asyncio.gather(*(node.put(to=f"user{number}@example.com") for number in range(100)))
    assert len(set(ids)) == 100
    assert len(await node.claim(200)) == 100


async def test_an_unknown_tenant_is_refused_by_its_name(node: OutboundNode) -> None:
    with pytest.raises(NotFound, match="nobody"):
        await node.put("nobody")


async def test_two_equal_messages_without_a_key_are_two(node: OutboundNode) -> None:
    assert await node.put() != await node.put()
    assert await count(node, "message_queue") == 2


async def test_the_same_key_and_message_give_the_first_answer(node: OutboundNode) -> None:
    first = await node.put(key="k")
    assert await node.put(key="k") == first
    await node.settle(await node.claim_one())
    assert await node.put(key="k") == first
    assert await count(node, "message_history") == 1


async def test_the_same_key_with_another_message_is_refused_and_stores_nothing(node: OutboundNode) -> None:
    await node.put(key="k")
    with pytest.raises(IdempotencyMismatch):
        await node.put(key="k", text="Something else")
    assert await count(node, "message_history") == 1


async def test_a_key_gives_the_first_answer_also_when_its_message_would_no_longer_be_taken(node: OutboundNode) -> None:
    expires_at = node.later(1)
    first = await node.put(key="k", expires_at=expires_at)
    node.clock.advance(5)
    assert await node.put(key="k", expires_at=expires_at) == first
    with pytest.raises(IdempotencyMismatch):
        await node.put(key="k", expires_at=expires_at, text="Something else")
    for key in ("another", None):
        with pytest.raises(InvalidInput, match="expires_at"):
            await node.put(key=key, expires_at=expires_at)
    assert await count(node, "message_history") == 1


async def test_a_message_that_is_no_json_is_refused_by_its_field_with_a_key_too(node: OutboundNode) -> None:
    with pytest.raises(InvalidInput, match="body"):
        await node.put(to="https://example.com/", channel="webhook", subject=None, text=None, body=object(), key="k")


async def test_a_key_in_somebodys_open_transaction_keeps_nobody_else_waiting(postgres_url: str) -> None:
    new = NewMessage(channel="email", to="ann@example.com", text="Hi")
    async with outbound_node_at(postgres_url) as node, await psycopg.AsyncConnection.connect(postgres_url) as theirs:
        await node.tenant("acme")
        first = await node.outbound.send("acme", new, idempotency_key="k", connection=theirs)
        same = asyncio.create_task(node.outbound.send("acme", new, idempotency_key="k"))
        other = asyncio.create_task(node.outbound.send("acme", new))
        async with asyncio.timeout(10):
            await other
        assert not same.done()
        await theirs.commit()
        assert await same == first


async def test_a_key_in_the_callers_transaction_answers_there_before_the_message_is_looked_at(
    postgres_url: str,
) -> None:
    async with outbound_node_at(postgres_url) as node, await psycopg.AsyncConnection.connect(postgres_url) as theirs:
        await node.tenant("acme")
        new = NewMessage(channel="email", to="ann@example.com", text="Hi", expires_at=node.later(1))
        first = await node.outbound.send("acme", new, idempotency_key="k", connection=theirs)
        node.clock.advance(5)
        again = await node.outbound.put("acme", new, idempotency_key="k", connection=theirs)
        assert again == Queued(first, "pending", replayed=True)


async def test_a_key_belongs_to_its_tenant(node: OutboundNode) -> None:
    await node.tenant("bob")
    assert await node.put("acme", key="k") != await node.put("bob", key="k")


async def test_one_key_at_once_from_two_nodes_makes_one_message(node: OutboundNode, other: OutboundNode) -> None:
    for number in range(10):
        ids = await asyncio.gather(*(sender.put(key=f"k{number}") for sender in (node, other) * 5))
        assert len(set(ids)) == 1
    assert await count(node, "message_queue") == 10


async def test_one_key_at_once_for_two_messages_takes_one_and_refuses_the_other(
    node: OutboundNode, other: OutboundNode
) -> None:
    for number in range(10):
        answers = await asyncio.gather(
            node.put(key=f"k{number}", text="one"), other.put(key=f"k{number}", text="two"), return_exceptions=True
        )
        assert sorted(type(answer).__name__ for answer in answers) == ["IdempotencyMismatch", "str"]


async def test_whoever_opted_out_gets_nothing_and_a_record_says_so(node: OutboundNode) -> None:
    await node.outbound.opt_out("acme", "ann@example.com", "email")
    with pytest.raises(OptedOut) as refusal:
        await node.put()
    assert refusal.value.message_id is not None
    message = await node.get(refusal.value.message_id)
    assert (message.status, message.attempt_count, message.next_attempt_at) == ("canceled", 0, None)
    assert "opted out (email)" in (message.error_message or "")
    assert [event.type for event in message.events] == ["queued", "canceled"]
    assert await node.claim() == []


async def test_a_refusal_is_repeated_for_the_same_key(node: OutboundNode) -> None:
    await node.outbound.opt_out("acme", "ann@example.com")
    told = []
    for _ in range(2):
        with pytest.raises(OptedOut) as refusal:
            await node.put(key="k")
        told.append((str(refusal.value), refusal.value.message_id, refusal.value.replayed))
        await node.outbound.opt_out("acme", "ann@example.com", "email")
    assert "opted out (all)" in told[0][0]
    assert told[0][:2] == told[1][:2]
    assert [replayed for _, _, replayed in told] == [False, True]
    assert await count(node, "message_history") == 1


@pytest.mark.parametrize("field", ["cc", "bcc"])
async def test_an_opted_out_copy_stops_the_message_too(node: OutboundNode, field: str) -> None:
    def copied(contact: str) -> dict[str, Any]:
        return {field: (contact,)}

    await node.outbound.opt_out("acme", "cc@example.com", "email")
    with pytest.raises(OptedOut):
        await node.put(**copied("CC@example.com"))
    late = await node.put(**copied("dan@example.com"))
    await node.outbound.opt_out("acme", "dan@example.com", "email")
    assert await node.claim() == []
    assert await node.status_of(late) == ["canceled"]


async def test_an_opt_out_is_for_its_channel_and_its_tenant_alone(node: OutboundNode) -> None:
    await node.tenant("bob")
    await node.outbound.opt_out("acme", "+15005550006", "whatsapp")
    await node.outbound.opt_out("bob", "cid@example.com")
    await node.put("acme", "+15005550006", channel="sms", subject=None)
    await node.put("acme", "cid@example.com")
    await node.put("bob")
    assert len(await node.claim()) == 3


@pytest.mark.parametrize(
    ("channel", "to", "written"),
    [
        ("inapp", "Bob@Example.com", "bob@example.com"),
        ("inapp", "user@host", "user@host"),
        ("inapp", "user 1", "user 1"),
        ("inapp", "HTTPS://X.example/y", "https://x.example/y"),
        ("inapp", "A" * 64, "A" * 64),
        ("telegram", "12345678", "12345678"),
        ("telegram", "-100123", "-100123"),
        ("telegram", "@chan", "@chan"),
        ("telegram", "+32 476 12 34 56", "+32476123456"),
        ("push", "AbC:dEf", "AbC:dEf"),
        ("push", "123456789012", "123456789012"),
        ("push", "tok@X.com", "Tok@x.com"),
    ],
)
async def test_an_opt_out_of_all_channels_stops_messages_of_each(
    node: OutboundNode, channel: str, to: str, written: str
) -> None:
    await node.outbound.tenants.put("acme", NewTenant(providers={channel: {"provider": "sandbox"}}))
    late = await node.put(to=to, channel=channel, subject=None)
    failed = await node.put(to=to, channel=channel, subject=None, priority=0)
    await node.fail(failed)
    await node.outbound.opt_out("acme", written)
    assert await node.claim() == []
    assert await node.status_of(late) == ["canceled"]
    with pytest.raises(OptedOut):
        await node.put(to=to, channel=channel, subject=None)
    with pytest.raises(OptedOut):
        await node.outbound.retry(failed)
    assert await node.outbound.forget("acme", written) == 3
    assert to not in await node.everything()


async def test_a_removed_opt_out_lets_messages_through_again(node: OutboundNode) -> None:
    opt_out, _ = await node.outbound.opt_out("acme", "ann@example.com")
    await node.outbound.remove_opt_out("acme", opt_out.id)
    message_id = await node.put()
    assert await node.claimed_ids() == [message_id]


async def test_an_opt_out_after_the_enqueue_stops_what_waits(node: OutboundNode) -> None:
    waiting, scheduled = await node.put(), await node.put(send_at=node.later(5))
    await node.outbound.opt_out("acme", "Ann@example.com ", reason="asked on the phone")
    node.clock.advance(5)
    assert await node.claim() == []
    for message_id in (waiting, scheduled):
        message = await node.get(message_id)
        assert (message.status, message.attempt_count, message.attempts) == ("canceled", 0, ())
        assert "opted out (all)" in (message.error_message or "")


async def test_opting_out_twice_is_the_same_opt_out(node: OutboundNode) -> None:
    first, is_new = await node.outbound.opt_out("acme", "ann@example.com", reason="once")
    second, is_new_again = await node.outbound.opt_out("acme", "ANN@example.com", reason="twice")
    assert (is_new, is_new_again) == (True, False)
    assert second == first
    assert list(await node.outbound.opt_outs("acme")) == [first]
