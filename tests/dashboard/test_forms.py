"""Forms keep what was typed when it is refused, overwrite nobody, and take whatever the API takes."""

import asyncio
import json
import re
from html import unescape
from urllib.parse import urlencode

from pillarbox.audit import acting_as
from pillarbox.box import Pillarbox
from pillarbox.outbound.messages import Email
from tests.dashboard.signed_in import FORM, Browser

MIB = 1024 * 1024


def field(page: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    assert found is not None
    return unescape(found[1])


def typed(page: str) -> str:
    found = re.search(r'<textarea id="document"[^>]*>\n(.*?)</textarea>', page, re.DOTALL)
    assert found is not None
    return unescape(found[1])


async def test_a_refused_change_of_a_tenant_keeps_what_was_typed_and_says_where_it_is_wrong(
    browser: Browser, box: Pillarbox
) -> None:
    seen = field(await browser.page("/tenants/acme"), "seen")
    wrong = {
        '{\n  "name": "A",\n  "settings": {"rate_per_minute": 5,}\n}': "document: Is not JSON at line 3, column ",
        '{"name": "A", "colour": "red"}': "colour: Is not a known field.",
        '{"settings": {"max_attempts": 99}}': "settings.max_attempts: Must be 1 to 20.",
        '{"providers": {"email": {"provider": "nobody"}}}': "providers.email",
        "[" * 100_000: "nested too deeply",
        "</textarea><script>alert(1)</script>": "document: Is not JSON at line 1, column 1",
        '{"name": ' + "9" * 5000 + "}": "document: Holds a number that is too long.",
    }
    for document, sentence in wrong.items():
        reply = await browser.post("/tenants/acme", document=document, seen=seen)
        page = reply.body.decode()
        assert (reply.status, typed(page)) == (422, document)
        assert sentence in unescape(page)
        assert "<script>alert" not in page
    assert (await box.tenants.get("acme")).name is None
    saved = await browser.post("/tenants/acme", document='{"name": "A"}', seen=seen)
    assert (saved.status, (await box.tenants.get("acme")).name) == (303, "A")


async def test_two_operators_do_not_overwrite_one_another(browser: Browser, box: Pillarbox) -> None:
    seen = field(await browser.page("/tenants/acme"), "seen")
    with acting_as("cli:grace"):
        await box.tenants.set("acme", name="Grace's")
    mine = json.dumps({"name": "Mine"})
    late = await browser.post("/tenants/acme", document=mine, seen=seen)
    page = unescape(late.body.decode())
    assert (late.status, typed(page)) == (422, mine)
    assert "cli:grace changed this tenant" in page
    assert '"name": "Grace\'s"' in page
    assert (await box.tenants.get("acme")).name == "Grace's"
    assert (await browser.post("/tenants/acme", document=mine)).status == 422
    again = await browser.post("/tenants/acme", document=mine, seen=field(page, "seen"))
    assert (again.status, (await box.tenants.get("acme")).name) == (303, "Mine")


async def test_a_mistake_does_not_let_a_form_overwrite_what_was_changed_meanwhile(
    browser: Browser, box: Pillarbox
) -> None:
    seen = field(await browser.page("/tenants/acme"), "seen")
    await box.tenants.set("acme", name="Grace's", settings={"rate_per_minute": 5})
    mistaken = await browser.post("/tenants/acme", document='{"name": "Mine",}', seen=seen)
    mended = await browser.post(
        "/tenants/acme", document='{"name": "Mine"}', seen=field(mistaken.body.decode(), "seen")
    )
    stored = await box.tenants.get("acme")
    assert (mistaken.status, mended.status) == (422, 422)
    assert "changed this tenant" in mended.body.decode()
    assert (stored.name, stored.settings.rate_per_minute) == ("Grace's", 5)


async def test_making_a_tenant_never_overwrites_one(browser: Browser, box: Pillarbox) -> None:
    token = await browser.token()

    async def theirs(tenant: str) -> None:
        await box.tenants.set(tenant, name="Theirs", settings={"rate_per_minute": 7})

    for tenant in (f"made-{number}" for number in range(12)):
        body = urlencode({"form_token": token, "tenant": tenant, "name": "Mine"}).encode()
        await asyncio.gather(browser.client.post("/tenants", body, headers=[FORM, browser.cookie]), theirs(tenant))
        assert (await box.tenants.get(tenant)).name == "Theirs"
    reply = await browser.post("/tenants", tenant="acme", name="Mine")
    assert (reply.status, (await box.tenants.get("acme")).name) == (303, None)
    assert "tenant: Is taken; choose another name." in unescape(await browser.page("/tenants"))


async def test_the_largest_message_can_be_edited_and_sent_again(browser: Browser, box: Pillarbox) -> None:
    text, html = "\n" * (MIB - 1) + "x", "ü" * (MIB // 2)
    first = await box.outbound.send(
        "acme", Email(to="ann@example.com", subject="s", text=text, html=html, from_="a@b.io")
    )
    fields = {"to": "ann@example.com", "subject": "ü" * 998, "text": text.replace("\n", "\r\n"), "html": html}
    reply = await browser.post(f"/messages/{first}/resend", **fields)
    assert reply.status == 303, reply.body[:300]
    sent = await box.outbound.get(reply.headers["location"].rpartition("/")[2])
    assert (sent.body_text, sent.body_html, sent.subject) == (text, html, "ü" * 998)


async def test_a_message_that_grew_too_large_is_refused_with_what_was_typed(browser: Browser, box: Pillarbox) -> None:
    first = await box.outbound.send("acme", Email(to="ann@example.com", subject="s", text="t", from_="a@b.io"))
    reply = await browser.post(
        f"/messages/{first}/resend", to="ann@example.com", subject="s", text="x" * (MIB + 1), html=""
    )
    assert (reply.status, b"text: " in reply.body, reply.body.count(b"x" * MIB)) == (422, True, 1)
    beyond = await browser.post(f"/messages/{first}/resend", text="x" * (14 * MIB))
    assert (beyond.status, b"13 MiB is the most" in beyond.body) == (413, True)
