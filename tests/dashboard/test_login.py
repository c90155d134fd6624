from pillarbox.box import Pillarbox
from pillarbox.dashboard.logins import login_token
from tests.api.client import ADMIN_KEY, Client
from tests.dashboard.signed_in import FORM, cookie_of, sign_in, token_in


async def test_without_a_cookie_the_page_leads_to_the_login(stranger: Client) -> None:
    for headers in ([], [("cookie", "pillarbox_login=x")], [("cookie", '\x80;;=;"')], [("authorization", ADMIN_KEY)]):
        reply = await stranger.get("/", headers=headers)
        assert (reply.status, reply.headers["location"]) == (303, "/login")
    form = (await stranger.get("/login")).body.decode()
    assert 'method="post" action="/login"' in form
    assert 'name="key"' in form


async def test_an_admin_key_becomes_one_cookie(stranger: Client) -> None:
    reply = await sign_in(stranger)
    assert (reply.status, reply.headers["location"]) == (303, "/")
    assert "HttpOnly" in reply.headers["set-cookie"]
    assert "SameSite=Strict" in reply.headers["set-cookie"]
    assert ADMIN_KEY not in reply.headers["set-cookie"]
    page = await stranger.get("/", headers=[cookie_of(reply)])
    assert page.status == 200
    assert (await stranger.get("/v1/status", headers=[cookie_of(reply)])).status == 401


async def test_no_other_key_signs_in(stranger: Client, box: Pillarbox) -> None:
    tenant = await box.keys.create(tenant="acme")
    for key in ("", "wrong", tenant.key, "\0", "ü"):
        reply = await sign_in(stranger, key)
        assert reply.status == 401
        assert "set-cookie" not in reply.headers
    for body in (b"", b"\xff", b"key", b"=&=&", b"&".join([b"a=b"] * 100)):
        assert (await stranger.post("/login", body, headers=[FORM])).status in (400, 401)
    assert (await stranger.post("/login", b"key=" + b"x" * 10_000, headers=[FORM])).status == 413


async def test_a_revoked_key_is_signed_out(stranger: Client, box: Pillarbox) -> None:
    made = await box.keys.create()
    cookie = cookie_of(await sign_in(stranger, made.key))
    assert (await stranger.get("/", headers=[cookie])).status == 200
    await box.keys.revoke(made.key_id)
    assert (await stranger.get("/", headers=[cookie])).status == 303


async def test_a_login_link_becomes_the_cookie_while_it_is_good(stranger: Client) -> None:
    reply = await stranger.get(f"/login?token={login_token(ADMIN_KEY)}")
    assert (reply.status, reply.headers["location"]) == (303, "/")
    assert (await stranger.get("/", headers=[cookie_of(reply)])).status == 200
    over, other = login_token(ADMIN_KEY, lifetime=-1), login_token("another key")
    for token in (over, other, "x", "1.x", f"99999999999.{over.partition('.')[2]}", "%C3%BC.%C3%BC", "%FF"):
        refused = await stranger.get(f"/login?token={token}")
        assert refused.status in (401, 422)
        assert "set-cookie" not in refused.headers


async def test_forms_of_other_sites_are_refused(stranger: Client) -> None:
    for origin in ("https://evil.example", "null", "http://127.0.0.1:9999", "http://[", ""):
        assert (await sign_in(stranger, ADMIN_KEY, ("origin", origin))).status == 403
    assert (await sign_in(stranger, ADMIN_KEY, ("origin", "http://127.0.0.1:8025"))).status == 303


async def test_signing_out_needs_the_pages_own_form(stranger: Client) -> None:
    cookie = cookie_of(await sign_in(stranger))
    assert (await stranger.post("/logout", b"form_token=x", headers=[FORM, cookie])).status == 403
    token = token_in((await stranger.get("/", headers=[cookie])).body.decode())
    done = await stranger.post("/logout", f"form_token={token}".encode(), headers=[FORM, cookie])
    assert done.status == 303
    assert (await stranger.get("/", headers=[cookie])).status == 303
