"""What is left of a tenant that was removed: nothing, on every database."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from pillarbox.errors import NotFound, TenantBusy
from pillarbox.outbound import tenants
from pillarbox.outbound.reading import Filter
from tests.contracts.outbound_boxes import TABLES, OutboundNode, outbound_node_at


@pytest.fixture
async def node(url: str) -> AsyncIterator[OutboundNode]:
    async with outbound_node_at(url) as here:
        await here.tenant("acme", "bob")
        yield here


async def fill(node: OutboundNode, tenant_id: str, count: int) -> None:
    """Messages that have ended, with copies, attempts, events, keys and opt-outs."""
    for number in range(count):
        message_id = await node.put(tenant_id, cc=[f"copy{number}@example.com"], key=f"{tenant_id}-{number}")
        await node.outbound.cancel(message_id)
        await node.outbound.retry(message_id)
    for strand in await node.claim():
        assert await node.settle(strand)
    for number in range(count):
        await node.outbound.opt_out(tenant_id, f"gone{number}@example.com")


async def delete(node: OutboundNode, tenant_id: str, revoke_keys: Callable[[str], Awaitable[None]]) -> None:
    node.outbound.tenants.revoke_keys = revoke_keys
    await node.outbound.tenants.delete(tenant_id)


async def rows(node: OutboundNode) -> dict[str, int]:
    return {table: (await node.sql(f"SELECT count(*) FROM {table}"))[0][0] for table in TABLES}


async def test_a_removed_tenant_leaves_nothing_and_others_keep_all(
    node: OutboundNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenants, "_ERASED_AT_ONCE", 2)
    await fill(node, "bob", 3)
    bobs = await rows(node)
    assert min(bobs[table] for table in TABLES if table != "message_queue") >= 2
    await fill(node, "acme", 5)
    await node.outbound.tenants.delete("acme")
    assert await rows(node) == bobs | {"tenants": 1}
    assert "acme" not in await node.everything()
    await node.check_agreement()
    with pytest.raises(NotFound):
        await node.outbound.tenants.get("acme")


async def test_keys_are_revoked_only_when_the_tenant_can_go_and_before_it_is_gone(node: OutboundNode) -> None:
    seen: list[tuple[str, int]] = []

    async def revoke_keys(tenant_id: str) -> None:
        seen.append((tenant_id, len(await node.outbound.list(Filter(tenant_id=tenant_id)))))

    message_id = await node.put()
    with pytest.raises(TenantBusy):
        await delete(node, "acme", revoke_keys)
    with pytest.raises(NotFound):
        await delete(node, "nobody", revoke_keys)
    assert seen == []
    await node.outbound.cancel(message_id)
    await delete(node, "acme", revoke_keys)
    assert seen == [("acme", 1)]


async def test_a_message_that_comes_in_while_a_tenant_goes_keeps_it(node: OutboundNode) -> None:
    async def send_meanwhile(tenant_id: str) -> None:
        await node.put(tenant_id)

    with pytest.raises(TenantBusy):
        await delete(node, "acme", send_meanwhile)
    assert len(await node.claimed_ids()) == 1
    await node.check_agreement()


async def test_what_outlived_an_earlier_tenant_is_not_shown_to_the_next(
    node: OutboundNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenants, "_ERASED_AT_ONCE", 2)
    await fill(node, "acme", 5)
    await node.sql("DELETE FROM tenants WHERE tenant_id = 'acme'")
    await node.tenant("acme")
    assert await node.outbound.list(Filter(tenant_id="acme")) == []
    left = await rows(node)
    assert {table for table in TABLES if left[table]} == {"tenants"}


async def test_a_tenant_that_is_replaced_keeps_what_it_has(node: OutboundNode) -> None:
    await fill(node, "acme", 2)
    before = await rows(node)
    await node.tenant("acme", rate=7)
    assert await rows(node) == before
