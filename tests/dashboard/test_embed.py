"""A tenant's log behind a link: its own messages, to read only, framed by one site, until it ends."""

import re

from pillarbox.box import Pillarbox
from pillarbox.outbound.messages import Email
from tests.api.client import Client
from tests.dashboard.signed_in import Browser


async def link_for(browser: Browser, **fields: str) -> str:
    reply = await browser.post("/tenants/acme/embed-links", expires_in="3600", **fields)
    assert reply.status == 200, reply.body
    found = re.search(r'id="link">http://127.0.0.1:8025(/embed/[^<]+)<', reply.body.decode())
    assert found is not None
    return found[1]


async def test_a_link_shows_one_tenants_messages_and_only_the_site_it_names_may_frame_it(
    browser: Browser, stranger: Client, box: Pillarbox
) -> None:
    await box.tenants.set("rival", providers={"email": {"provider": "sandbox"}})
    await box.outbound.send("acme", Email(to="ann@example.com", subject="Ours", text="t", from_="a@b.io"))
    await box.outbound.send("rival", Email(to="bob@example.com", subject="Theirs", text="t", from_="a@b.io"))
    alone, framed = await link_for(browser), await link_for(browser, origin="https://app.example.com/")
    for path in (
        alone,
        f"{alone}?filter=tenant:rival",
        f"{alone}?filter=-tenant:acme",
        f"{alone}?filter=to:bob@example.com",
    ):
        page = await stranger.get(path)
        assert page.status == 200
        assert b"Theirs" not in page.body
        assert b"form_token" not in page.body
    assert b"Ours" in (await stranger.get(alone)).body
    assert "frame-ancestors 'none'" in (await stranger.get(alone)).headers["content-security-policy"]
    headers = (await stranger.get(framed)).headers
    assert "frame-ancestors https://app.example.com" in headers["content-security-policy"]
    assert "x-frame-options" not in headers
    assert "set-cookie" not in headers


async def test_a_link_that_is_over_shows_nothing(browser: Browser, stranger: Client, box: Pillarbox) -> None:
    link = await link_for(browser)
    assert (await stranger.get(link)).status == 200
    assert (await stranger.get(link[:-2])).status == 404
    assert (await browser.post("/tenants/acme/embed-links/revoke")).status == 303
    assert (await stranger.get(link)).status == 404


async def test_a_link_is_made_only_for_what_can_be(browser: Browser) -> None:
    for fields in ({"origin": "evil"}, {"origin": "https://a; script-src *"}, {"expires_in": "99999999"}):
        reply = await browser.post("/tenants/acme/embed-links", **fields)
        assert (reply.status, reply.headers["location"]) == (303, "/tenants/acme")
    unknown = await browser.post("/tenants/unknown/embed-links")
    assert (unknown.status, unknown.headers["location"]) == (303, "/tenants/unknown")
