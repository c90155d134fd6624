"""Nodes, the sandbox's controls, links to embed, what needs attention, and who did what."""

import asyncio
from datetime import timedelta

import pytest

from pillarbox import Email, Sms
from pillarbox.audit import acting_as
from pillarbox.box import Pillarbox
from pillarbox.errors import InvalidInput, NotCancelable, NotFound
from pillarbox.operators.nodes import Node
from pillarbox.outbound.messages import Message
from tests.operators.filled import backdate, drain, fill, send, sql


async def test_every_action_of_an_operator_is_noted_with_who_and_how_it_ended(box: Pillarbox) -> None:
    await fill(box)
    (message,) = await send(box, Email(to="ann@example.com", subject="s", text="t"))
    with acting_as("key:k1"):
        await box.outbound.cancel(message, tenant_id="acme")
        with pytest.raises(NotCancelable):
            await box.outbound.cancel(message, tenant_id="acme")
        await box.outbound.retry(message, tenant_id="acme")
        opt_out, _ = await box.outbound.opt_out("acme", "bob@example.com")
        await box.outbound.remove_opt_out("acme", opt_out.id)
        await box.outbound.forget("acme", "bob@example.com")
        await box.inbound.retry(1)
        await box.inbound.expire(1)
        await box.hooks.retry(1)
        await box.sessions.close("s1")
        made = await box.keys.create(tenant="acme")
        await box.keys.revoke(made.key_id)
        await box.tenants.set("fresh")
        await box.tenants.delete("fresh")
        with pytest.raises(NotFound):
            await box.outbound.remove_opt_out("acme", "nowhere")
    told = [
        (act.action, act.subject_kind, act.subject_id, act.tenant_id, act.outcome) for act in await box.audit.list()
    ]
    assert list(reversed(told)) == [
        ("cancel", "message", message, "acme", "done"),
        ("cancel", "message", message, "acme", "not-cancelable"),
        ("retry", "message", message, "acme", "done"),
        ("opt-out.add", "opt-out", opt_out.id, "acme", "done"),
        ("opt-out.remove", "opt-out", opt_out.id, "acme", "done"),
        ("forget", "tenant", "acme", "acme", "done"),
        ("retry", "inbound", "1", None, "done"),
        ("expire", "inbound", "1", None, "done"),
        ("retry", "event", "1", None, "done"),
        ("close", "session", "s1", None, "done"),
        ("key.create", "key", made.key_id, "acme", "done"),
        ("key.revoke", "key", made.key_id, "acme", "done"),
        ("tenant.put", "tenant", "fresh", "fresh", "done"),
        ("tenant.delete", "tenant", "fresh", "fresh", "done"),
    ]
    assert {act.who for act in await box.audit.list()} == {"key:k1"}
    of_message = await box.audit.list(subject=("message", message))
    assert [act.action for act in of_message] == ["retry", "cancel", "cancel"]
    assert await box.audit.list(subject=("message", message), before=of_message[-1].id) == []
    assert "bob@example.com" not in repr(await sql(box, "SELECT * FROM operator_action"))


async def test_a_program_on_its_own_box_is_no_operator_and_old_actions_are_forgotten(box: Pillarbox) -> None:
    (message,) = await send(box, Email(to="ann@example.com", subject="s", text="t"))
    await box.outbound.cancel(message)
    assert await box.audit.list() == []
    with acting_as("cli:ann"):
        await box.outbound.retry(message)
    assert await box.audit.prune(timedelta(days=1)) == (0, False)
    assert await box.audit.prune(timedelta(days=-1)) == (1, False)
    assert await box.audit.list() == []


async def seen(box: Pillarbox) -> list[Node]:
    async with asyncio.timeout(10):
        while True:
            if nodes := await box.nodes.list():
                return nodes
            await asyncio.sleep(0.01)


async def test_a_node_is_seen_while_it_works_and_missed_when_it_is_gone(box: Pillarbox) -> None:
    running = asyncio.create_task(box.nodes.run())
    nodes = await seen(box)
    assert [(node.name, node.role, node.state, node.in_flight) for node in nodes] == [("here", "embedded", "alive", 0)]
    running.cancel()
    await asyncio.wait([running])
    assert [node.state for node in await box.nodes.list()] == ["stopped"]
    await box.nodes.beat()
    await sql(box, "UPDATE node SET last_seen = :at", at=box.database.clock.now() - timedelta(minutes=1))
    assert [node.state for node in await box.nodes.list()] == ["gone"]
    missed = (await box.attention()).items
    assert [(item.kind, item.id) for item in missed] == [("gone-node", "here")]
    await sql(box, "UPDATE node SET holder = 'the one before'")
    await box.nodes.beat()
    assert sorted(node.state for node in await box.nodes.list()) == ["alive", "gone"]
    assert (await box.attention()).items == []
    await sql(box, "UPDATE node SET last_seen = :at", at=box.database.clock.now() - timedelta(days=2))
    await box.nodes.forget()
    assert await box.nodes.list() == []


async def test_the_sandbox_does_next_what_was_arranged_for_a_channel(box: Pillarbox) -> None:
    await box.sandbox.arrange("fail", channel="sms", times=2)
    await box.sandbox.arrange("throttle")
    assert [(each.trouble, each.channel, each.remaining) for each in await box.sandbox.list()] == [
        ("fail", "sms", 2),
        ("throttle", "all", 1),
    ]
    ids: list[str] = []
    messages: list[Message] = [
        Email(to="a@example.com", subject="s", text="t"),
        *[Sms(to="+14155550199", text="t")] * 3,
    ]
    for message in messages:
        ids += await send(box, message)
        await drain(box)
    assert [(await box.outbound.get(each)).status for each in ids] == ["retrying", "failed", "failed", "sent"]
    assert await box.sandbox.list() == []
    taken = (await box.sandbox.mailbox()).items
    assert [item.message_id for item in taken] == list(reversed(ids))
    await box.sandbox.arrange("fail", times=5)
    await box.sandbox.clear()
    ids = await send(box, Email(to="a@example.com", subject="s", text="t"))
    await drain(box)
    assert (await box.outbound.get(ids[0])).status == "sent"
    for wrong in ({"times": 0}, {"times": 1001}, {"channel": "pigeon"}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            await box.sandbox.arrange("fail", **wrong)


async def test_a_link_shows_its_tenant_until_it_expires_or_is_revoked(
    box: Pillarbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = await box.embeds.make("acme", expires_in=60, origin="https://app.acme.example")
    assert link.url == f"/embed/{link.token}"
    opened = await box.embeds.open(link.token)
    assert opened is not None
    assert (opened.tenant_id, opened.origin) == ("acme", "https://app.acme.example")
    rival = await box.embeds.make("rival")
    assert await box.embeds.open(link.token[:-2] + "AA") is None
    assert await box.embeds.open(box.embeds._sealer.token(("unsubscribe", "acme", "x", "y", "z"))) is None
    await box.embeds.revoke("acme")
    assert await box.embeds.open(link.token) is None
    assert await box.embeds.open(rival.token) is not None
    await box.tenants.delete("rival")
    await box.tenants.set("rival")
    assert await box.embeds.open(rival.token) is None
    again = await box.embeds.make("acme", expires_in=1)
    later = box.database.clock.now() + timedelta(seconds=2)
    monkeypatch.setattr(box.embeds._clock, "now", lambda: later)
    assert await box.embeds.open(again.token) is None
    with pytest.raises(InvalidInput, match="expires_in"):
        await box.embeds.make("acme", expires_in=86_401)
    with pytest.raises(InvalidInput, match="origin"):
        await box.embeds.make("acme", origin="https://acme.example/path")
    with pytest.raises(NotFound):
        await box.embeds.make("nobody")


async def test_attention_names_what_is_stuck_with_its_age_and_what_to_do(box: Pillarbox) -> None:
    assert list((await box.attention()).items) == []
    await fill(box)
    at = box.database.clock.now() - timedelta(minutes=10)
    await backdate(box, "hook_outbox", at)
    for table in ("inbound_strand", "hook_strand"):
        await sql(box, f"UPDATE {table} SET failing_since = :at WHERE failing = 1", at=at)
    await sql(box, "UPDATE message_history SET sent_at = :at WHERE sent_at IS NOT NULL", at=at)
    found = await box.attention()
    by_kind = {kind: [item for item in found.items if item.kind == kind] for kind in found.counts}
    assert {kind: len(items) for kind, items in by_kind.items()} == {
        "stuck-session": 1,
        "stuck-events": 1,
        "failing-provider": 1,
        "failed-message": 2,
        "dead-event": 1,
        "gone-node": 0,
    }
    assert {kind: count.matching for kind, count in found.counts.items()} == {k: len(v) for k, v in by_kind.items()}
    (stuck,) = by_kind["stuck-session"]
    assert (stuck.session_id, stuck.id, stuck.count) == ("s1", "1", 2)
    assert "the agent is away" in stuck.reason
    assert stuck.age_seconds >= 600
    assert [(item.tenant_id, item.count) for item in by_kind["failing-provider"]] == [("acme", 3)]
    assert {(item.tenant_id, item.summary) for item in by_kind["failed-message"]} == {("acme", "two"), ("rival", "six")}
    assert all(item.action.endswith(".") and item.reason for item in found.items)
