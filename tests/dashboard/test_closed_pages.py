"""Every page is closed to everything outside, and to whoever is not signed in."""

import re

import pytest

from pillarbox.box import Pillarbox
from pillarbox.dashboard.routes import LOGIN, PAGES
from pillarbox.outbound.messages import Email
from tests.api.client import Client
from tests.dashboard.signed_in import FORM, Browser, token_in

EVIL = "<script>alert(1)</script>\"'&"
ESCAPED = "&lt;script&gt;alert(1)&lt;/script&gt;&#34;&#39;&amp;"
OPEN = {endpoint.path for endpoint in LOGIN} | {"/embed/{token}"}
NAMES = {"message_id": "x", "session_id": "x", "tenant": "acme", "opt_out_id": "x", "id": "1", "operation_id": "x"}


def path_of(pattern: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: NAMES[found[1]], pattern)


@pytest.mark.parametrize("path", sorted({each.path for each in PAGES if each.method == "GET"} - OPEN))
async def test_without_a_cookie_there_is_no_page(stranger: Client, path: str) -> None:
    reply = await stranger.get(path_of(path))
    if path.startswith("/live/") or path.endswith("/preview"):
        assert reply.status == 404
    else:
        assert (reply.status, reply.headers["location"]) == (303, "/login")
        assert "content-security-policy" in reply.headers


@pytest.mark.parametrize("path", sorted({each.path for each in PAGES if each.method == "POST"} - OPEN))
async def test_no_form_acts_without_cookie_own_token_and_own_origin(browser: Browser, path: str) -> None:
    target = path_of(path)
    without_cookie = await browser.client.post(target, b"form_token=x", headers=[FORM])
    assert (without_cookie.status, without_cookie.headers["location"]) == (303, "/login")
    for body in (b"", b"form_token=", b"form_token=x", b"form_token=%ff"):
        forged = await browser.client.post(target, body, headers=[FORM, browser.cookie])
        assert (forged.status, b"not from your page" in forged.body) == (403, True)
    for origin in ("https://evil.example", "null"):
        foreign = await browser.post(target, ("origin", origin))
        assert (foreign.status, b"a page of another site" in foreign.body) == (403, True)


async def test_every_page_carries_the_headers_that_close_it(browser: Browser, box: Pillarbox) -> None:
    message_id = await box.outbound.send(
        "acme", Email(to="ann@example.com", subject="s", html="<b>x</b>", from_="a@b.io")
    )
    paths = [
        "/",
        "/login",
        "/messages",
        f"/messages/{message_id}",
        f"/messages/{message_id}/edit",
        "/messages?filter=x",
    ]
    paths += ["/sessions", "/hooks", "/inbox", "/tenants", "/tenants/acme", "/sandbox", "/audit", "/actions", "/docs"]
    for path in [*paths, "/sessions/unknown", "/embed/x"]:
        headers = (await browser.get(path)).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy, path
        assert "base-uri 'none'" in policy, path
        assert "frame-ancestors 'none'" in policy, path
        assert "unsafe" not in policy, path
        assert headers["x-content-type-options"] == "nosniff", path
        assert headers["referrer-policy"] == "same-origin", path
        assert headers["cache-control"] == "no-store", path


async def test_the_html_of_a_message_is_a_document_that_can_do_nothing(browser: Browser, box: Pillarbox) -> None:
    html = "<script>alert(1)</script><img src=https://evil.example/x>"
    message_id = await box.outbound.send("acme", Email(to="ann@example.com", subject="s", html=html, from_="a@b.io"))
    page = await browser.page(f"/messages/{message_id}")
    assert f'<iframe class="preview" sandbox src="/messages/{message_id}/preview"' in page
    assert "evil.example" not in page
    preview = await browser.get(f"/messages/{message_id}/preview")
    policy = dict(part.strip().partition(" ")[::2] for part in preview.headers["content-security-policy"].split(";"))
    assert preview.body.decode() == html
    assert policy["sandbox"] == ""
    assert policy["default-src"] == "'none'"
    assert policy["img-src"] == "data:"
    assert policy["frame-ancestors"] == "'self'"
    assert "script-src" not in policy


async def test_a_preview_asks_no_browser_to_connect_elsewhere(browser: Browser, box: Pillarbox) -> None:
    ways_out = "<LINK rel=preconnect href=//evil><link/rel=x><Meta http-equiv=refresh><base\thref=x><iframe src=//evil>"
    html = f"{ways_out}<p>linked <linked></p>"
    message_id = await box.outbound.send("acme", Email(to="a@example.com", subject="s", html=html, from_="a@b.io"))
    shown = (await browser.get(f"/messages/{message_id}/preview")).body.decode()
    assert not re.search(r"<(link|meta|base|iframe)[^a-z]", shown, re.IGNORECASE)
    assert shown.endswith("<p>linked <linked></p>")


async def test_what_people_wrote_is_escaped(browser: Browser, box: Pillarbox) -> None:
    await box.sessions.open(session_id=EVIL, title=EVIL, target={"kind": "python", "name": "nobody"})
    await box.inbound.enqueue(session_id=EVIL, origin=EVIL, content=EVIL, actor_name=EVIL)
    message_id = await box.outbound.send(
        "acme", Email(to="a@example.com", subject=EVIL, text=EVIL, from_="a@b.io", tags=[EVIL])
    )
    for path in (
        "/",
        "/messages",
        f"/messages/{message_id}",
        f"/messages/{message_id}/edit",
        "/inbound/1",
        "/sessions",
    ):
        page = await browser.page(path)
        assert ESCAPED in page, path
        assert EVIL not in page, path


async def test_styles_and_scripts_are_our_own_and_kept_for_ever(browser: Browser, stranger: Client) -> None:
    page = await browser.page("/")
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", page)
    addresses = re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
    assert len(addresses) > 5
    for address in addresses:
        reply = await stranger.get(address)
        assert reply.status == 200
        assert reply.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert reply.headers["x-content-type-options"] == "nosniff"
    assert (await stranger.get("/static/pillarbox.css")).status == 404
    assert not re.search(r'(?:src|href|action)="(?!/|#)', page)


async def test_a_part_of_a_page_is_not_replaced_by_the_login_form(stranger: Client) -> None:
    reply = await stranger.get("/sessions", headers=[("hx-request", "true")])
    assert (reply.status, reply.body, reply.headers["hx-redirect"]) == (200, b"", "/login")


async def test_a_form_leads_back_only_to_our_own_pages(browser: Browser, box: Pillarbox) -> None:
    await box.sessions.open(session_id="s", target={"kind": "python", "name": "nobody"})
    for back in ("https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "/a\nb"):
        enqueued = await box.inbound.enqueue(session_id="s", origin="x", content="y")
        reply = await browser.post(f"/inbound/{enqueued.id}/expire", back=back)
        assert (reply.status, reply.headers["location"]) == (303, f"/inbound/{enqueued.id}")


async def test_a_refused_action_is_told_once_on_the_page_it_came_from(browser: Browser, box: Pillarbox) -> None:
    message_id = await box.outbound.send("acme", Email(to="ann@example.com", subject="s", text="t", from_="a@b.io"))
    token = token_in(await browser.page("/tenants"))
    assert token
    reply = await browser.post(f"/messages/{message_id}/retry")
    assert (reply.status, reply.headers["location"]) == (303, f"/messages/{message_id}")
    polled = await browser.get(f"/messages/{message_id}", ("hx-request", "true"))
    assert b"only failed, expired or canceled" not in polled.body
    assert "only failed, expired or canceled" in await browser.page(f"/messages/{message_id}")
    assert "only failed, expired or canceled" not in await browser.page(f"/messages/{message_id}")


async def test_a_form_sent_twice_sends_one_message(browser: Browser, box: Pillarbox) -> None:
    message_id = await box.outbound.send("acme", Email(to="ann@example.com", subject="s", text="t", from_="a@b.io"))
    once = re.search(r'name="once" value="([^"]+)"', await browser.page(f"/messages/{message_id}/edit"))
    assert once is not None
    fields = {"to": "ann@example.com", "subject": "again", "text": "t", "html": "", "once": once[1]}
    sent = [await browser.post(f"/messages/{message_id}/resend", **fields) for _ in range(2)]
    assert {reply.status for reply in sent} == {303}
    assert len({reply.headers["location"] for reply in sent}) == 1
    assert len(await box.outbound.list()) == 2
