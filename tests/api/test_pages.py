import re
from urllib.parse import urlencode

import pytest

from pillarbox.api.login import login_token
from pillarbox.box import Pillarbox
from tests.api.client import ADMIN_KEY, Client, Reply

FORM = ("content-type", "application/x-www-form-urlencoded")
EVIL = "<script>alert(1)</script>\"'&"


@pytest.fixture
def browser(client: Client) -> Client:
    return client.with_key(None)


async def sign_in(browser: Client, key: str = ADMIN_KEY, *headers: tuple[str, str]) -> Reply:
    return await browser.post("/login", urlencode({"key": key}).encode(), headers=[FORM, *headers])


def cookie_of(reply: Reply) -> tuple[str, str]:
    return ("cookie", reply.headers["set-cookie"].partition(";")[0])


async def test_without_a_cookie_the_page_leads_to_the_login(browser: Client) -> None:
    for headers in ([], [("cookie", "pillarbox_login=x")], [("cookie", '\x80;;=;"')], [("authorization", ADMIN_KEY)]):
        reply = await browser.get("/", headers=headers)
        assert (reply.status, reply.headers["location"]) == (303, "/login")
    form = (await browser.get("/login")).body.decode()
    assert '<form class="sign-in" method="post" action="/login">' in form
    assert 'name="key"' in form


async def test_an_admin_key_becomes_one_cookie(browser: Client) -> None:
    reply = await sign_in(browser)
    assert (reply.status, reply.headers["location"]) == (303, "/")
    assert "HttpOnly" in reply.headers["set-cookie"]
    assert "SameSite=Strict" in reply.headers["set-cookie"]
    assert ADMIN_KEY not in reply.headers["set-cookie"]
    page = await browser.get("/", headers=[cookie_of(reply)])
    assert page.status == 200
    assert (await browser.get("/v1/status", headers=[cookie_of(reply)])).status == 401


async def test_no_other_key_signs_in(browser: Client, box: Pillarbox) -> None:
    tenant = await box.keys.create(tenant="acme")
    for key in ("", "wrong", tenant.key, "\0", "ü"):
        reply = await sign_in(browser, key)
        assert reply.status == 401
        assert "set-cookie" not in reply.headers
    for body in (b"", b"\xff", b"key", b"=&=&", b"&".join([b"a=b"] * 100)):
        assert (await browser.post("/login", body, headers=[FORM])).status in (400, 401)
    assert (await browser.post("/login", b"key=" + b"x" * 10_000, headers=[FORM])).status == 413


async def test_a_revoked_key_is_signed_out(browser: Client, box: Pillarbox) -> None:
    made = await box.keys.create()
    cookie = cookie_of(await sign_in(browser, made.key))
    assert (await browser.get("/", headers=[cookie])).status == 200
    await box.keys.revoke(made.key_id)
    assert (await browser.get("/", headers=[cookie])).status == 303


async def test_a_login_link_becomes_the_cookie_while_it_is_good(browser: Client) -> None:
    reply = await browser.get(f"/login?token={login_token(ADMIN_KEY)}")
    assert (reply.status, reply.headers["location"]) == (303, "/")
    assert (await browser.get("/", headers=[cookie_of(reply)])).status == 200
    over, other = login_token(ADMIN_KEY, lifetime=-1), login_token("another key")
    for token in (over, other, "x", "1.x", f"99999999999.{over.partition('.')[2]}", "%C3%BC.%C3%BC", "%FF"):
        refused = await browser.get(f"/login?token={token}")
        assert refused.status in (401, 422)
        assert "set-cookie" not in refused.headers


async def test_forms_of_other_sites_are_refused(browser: Client) -> None:
    for origin in ("https://evil.example", "null", "http://127.0.0.1:9999", "http://[", ""):
        assert (await sign_in(browser, ADMIN_KEY, ("origin", origin))).status == 403
    assert (await sign_in(browser, ADMIN_KEY, ("origin", "http://127.0.0.1:8025"))).status == 303


async def test_signing_out_needs_the_pages_own_form(browser: Client) -> None:
    cookie = cookie_of(await sign_in(browser))
    assert (await browser.post("/logout", b"form_token=x", headers=[FORM, cookie])).status == 403
    page = (await browser.get("/", headers=[cookie])).body.decode()
    token = re.search(r'name="form_token" value="([^"]+)"', page)
    assert token is not None
    done = await browser.post("/logout", f"form_token={token[1]}".encode(), headers=[FORM, cookie])
    assert done.status == 303
    assert (await browser.get("/", headers=[cookie])).status == 303


async def test_pages_are_closed_to_everything_outside(browser: Client) -> None:
    cookie = cookie_of(await sign_in(browser))
    for path in ("/", "/login", "/docs"):
        headers = (await browser.get(path, headers=[cookie])).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "base-uri 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe-inline" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"


async def test_what_people_wrote_is_escaped(browser: Client, client: Client) -> None:
    target = {"kind": "python", "name": "nobody"}
    opened = await client.post("/v1/sessions", {"session_id": EVIL, "title": EVIL, "target": target})
    assert opened.status == 201
    page = (await browser.get("/", headers=[cookie_of(await sign_in(browser))])).body.decode()
    assert "<script" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#x27;&amp;") == 2
