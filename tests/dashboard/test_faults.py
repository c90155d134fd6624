"""What goes wrong on a page is a page: ours, closed like the others, with the reason and a way on; programs get JSON."""

import pytest

from pillarbox.api.app import create_app
from pillarbox.box import Pillarbox
from pillarbox.settings import load_settings
from tests.api.client import ADMIN_KEY, Client, Reply
from tests.dashboard.signed_in import FORM, Browser, cookie_of, sign_in
from tests.servers.daemon import key_for

BROWSES = ("accept", "text/html,application/xhtml+xml,*/*;q=0.8")
WRONG = {
    "/messages?colour=red": (422, "colour: Is not a known field."),
    "/messages?filter=a&filter=b": (422, "query: Must not give a parameter twice."),
    "/hooks?status=lost": (422, "status: Must be one of"),
    "/hooks?cursor=x": (422, "cursor: "),
    "/tenants?cursor=x": (422, "cursor: Must be the next_cursor"),
    "/sessions?blocked=maybe": (422, "blocked: "),
    "/messages/unknown": (404, "unknown"),
    "/inbound/999": (404, "999"),
    "/inbound/x": (404, "There is no page at this address."),
    "/sessions/nobody": (404, "nobody"),
    "/messages/": (404, "There is no page at this address."),
    "/tenants/acme/nothing/here": (404, "There is no page at this address."),
    "/logout": (405, "only takes forms"),
}


def is_closed_page(reply: Reply) -> bool:
    headers = reply.headers
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")
    assert headers["referrer-policy"] == "same-origin"
    policy = headers["content-security-policy"]
    return "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy


@pytest.mark.parametrize("path", WRONG)
async def test_an_operator_is_told_on_a_page_what_is_wrong_and_where_to_go(browser: Browser, path: str) -> None:
    status, sentence = WRONG[path]
    reply = await browser.get(path)
    page = reply.body.decode()
    assert (reply.status, is_closed_page(reply)) == (status, True)
    assert sentence in page
    assert 'class="button" href="/"' in page
    if path.startswith("/hooks"):
        assert 'class="button" href="/hooks"' in page


@pytest.mark.parametrize("path", [path for path in WRONG if path != "/logout"])
async def test_whoever_is_not_signed_in_is_led_to_the_login_before_anything_is_said(
    stranger: Client, path: str
) -> None:
    reply = await stranger.get(path)
    assert (reply.status, reply.headers["location"]) == (303, "/login")


async def test_an_unknown_address_is_a_page_for_browsers_and_json_for_programs(
    stranger: Client, browser: Browser
) -> None:
    seen = await stranger.get("/favicon", headers=[BROWSES])
    assert (seen.status, is_closed_page(seen), b"form_token" in seen.body) == (404, True, False)
    assert (await browser.get("/nowhere", BROWSES)).body.count(b'href="/messages"') == 1
    for path in (
        "/favicon",
        "/v1/nothing",
        "/static/nothing.css",
        "/live/overview",
        "/adapters/none",
        "/healthz/x",
        "//messages",
    ):
        reply = await stranger.get(path, headers=[] if path in ("/favicon", "//messages") else [BROWSES])
        assert reply.headers["content-type"] == "application/problem+json", path


async def test_a_foreign_host_is_a_page_that_needs_nothing_from_us(box: Pillarbox, stranger: Client) -> None:
    elsewhere = Client(stranger.app, key=None, host="evil.example")
    reply = await elsewhere.get("/", headers=[BROWSES])
    assert (reply.status, b"http.allowed_hosts" in reply.body, b"/static/" in reply.body) == (421, True, False)
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert (await elsewhere.get("/")).reason == "misdirected"


async def test_public_pages_tell_strangers_what_is_wrong(stranger: Client) -> None:
    for path in ("/login?token=a&token=b", "/embed/x?colour=red"):
        reply = await stranger.get(path)
        assert (reply.status, is_closed_page(reply)) == (422, True)
    large = await stranger.post("/login", b"key=" + b"x" * 10_000, headers=[FORM])
    assert (large.status, large.headers["connection"], is_closed_page(large)) == (413, "close", True)


async def test_what_strangers_write_into_an_address_is_escaped(browser: Browser) -> None:
    for path in ("/messages?%3Cscript%3E=1", "/sessions/%3Cscript%3E", "/%3Cscript%3E"):
        reply = await browser.get(path, BROWSES)
        assert reply.status in (404, 422)
        assert b"<script>" not in reply.body


async def test_a_database_that_is_gone_is_a_page_with_a_second_try(sqlite_url: str) -> None:
    settings = load_settings(environ=key_for(sqlite_url))
    async with Pillarbox.open(sqlite_url, settings=settings) as box:
        client = Client(create_app(box, admin_key=ADMIN_KEY), key=None)
        by_setting = Browser(client, cookie_of(await sign_in(client)))
        by_key = Browser(client, cookie_of(await sign_in(client, (await box.keys.create()).key)))
    for browser in (by_setting, by_key):
        reply = await browser.get("/tenants")
        assert (reply.status, reply.headers["retry-after"], is_closed_page(reply)) == (503, "1", True)
