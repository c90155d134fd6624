"""/v1/tenants"""

from __future__ import annotations

import msgspec

from pillarbox.api.answers import Answer, ok
from pillarbox.api.call import Call
from pillarbox.api.paging import Cursor, Limit, page, text_after


class TenantFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which tenants to list."""

    limit: Limit = 100
    cursor: Cursor = ""


async def put_tenant(call: Call) -> Answer:
    tenant, is_new = await call.box.tenants.put(call.path["tenant"], call.body)
    return ok(tenant, 201 if is_new else 200)


async def get_tenant(call: Call) -> Answer:
    return ok(await call.box.tenants.get(call.path["tenant"]))


async def list_tenants(call: Call) -> Answer:
    query: TenantFilter = call.query
    tenants = await call.box.tenants.list(limit=query.limit + 1, after=text_after(query.cursor, "tenant"))
    return ok(page(tenants, limit=query.limit, kind="tenant", position=lambda tenant: tenant.tenant_id))


async def delete_tenant(call: Call) -> Answer:
    await call.box.tenants.delete(call.path["tenant"])
    return Answer(204, None)
