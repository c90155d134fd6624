"""Very many callers at once."""

import asyncio

from pillarbox.box import Pillarbox
from pillarbox.errors import NotFound
from pillarbox.outbound.messages import Email
from pillarbox.outbound.model import NewTenant
from pillarbox.settings import load_settings
from tests.outbound.end_to_end import SECRETS_KEY

CALLERS = 5000
SANDBOX = {"email": {"provider": "sandbox"}}


async def test_thousands_of_sends_at_once_are_all_taken(database_url: str) -> None:
    settings = load_settings(environ={}, secrets={"key": SECRETS_KEY})
    async with Pillarbox.open(database_url, settings=settings) as box:
        await box.tenants.put("acme", NewTenant(providers=SANDBOX))
        mails = [Email(to=f"person{n}@example.com", text="hello") for n in range(CALLERS)]
        ids = await asyncio.gather(*(box.outbound.send("acme", mail) for mail in mails))
        assert len(set(ids)) == CALLERS
        assert (await box.outbound.status()).pending == CALLERS


async def test_callers_that_ask_for_no_tenant_are_each_told_so(database_url: str) -> None:
    settings = load_settings(environ={}, secrets={"key": SECRETS_KEY})
    async with Pillarbox.open(database_url, settings=settings) as box:
        sends = (box.outbound.send("nobody", Email(to="a@example.com", text="hello")) for _ in range(50))
        told = await asyncio.gather(*sends, return_exceptions=True)
        assert {type(each) for each in told} == {NotFound}
        await box.tenants.put("nobody", NewTenant(providers=SANDBOX))
        assert await box.outbound.send("nobody", Email(to="a@example.com", text="hello"))
