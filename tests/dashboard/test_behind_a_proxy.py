"""Behind a proxy that adds TLS, `http.public_url` says where our pages are, whatever host the proxy passes on."""

from collections.abc import AsyncIterator

import pytest

from pillarbox.api.app import create_app
from pillarbox.box import Pillarbox
from pillarbox.settings import load_settings
from tests.api.client import ADMIN_KEY, Client
from tests.dashboard.signed_in import Browser, cookie_of, sign_in
from tests.servers.daemon import key_for

PUBLIC = "https://box.example.com"


@pytest.fixture
async def box(sqlite_url: str) -> AsyncIterator[Pillarbox]:
    public = {"PILLARBOX_HTTP__PUBLIC_URL": "https://Box.Example.com:443"}
    settings = load_settings(environ=key_for(sqlite_url) | public)
    async with Pillarbox.open(sqlite_url, settings=settings) as opened:
        await opened.tenants.set("acme")
        yield opened


def passed_on(box: Pillarbox, host: str) -> Client:
    """What reaches us from a proxy that names this host."""
    return Client(create_app(box, admin_key=ADMIN_KEY), key=None, host=host)


@pytest.mark.parametrize("host", ["box.example.com", "box.example.com:443", "127.0.0.1:8025"])
async def test_forms_work_and_the_cookie_is_secure_whatever_host_the_proxy_names(box: Pillarbox, host: str) -> None:
    client = passed_on(box, host)
    signed = await sign_in(client, ADMIN_KEY, ("origin", PUBLIC))
    assert signed.status == 303
    assert "; Secure" in signed.headers["set-cookie"]
    browser = Browser(client, cookie_of(signed))
    made = await browser.post("/tenants", ("origin", PUBLIC), tenant="other")
    assert (made.status, made.headers["location"]) == (303, "/tenants/other")
    for origin in (
        "https://evil.example",
        "https://box.example.com.evil.example",
        "null",
        "https://box.example.com:8443",
    ):
        assert (await browser.post("/tenants", ("origin", origin), tenant="third")).status == 403


async def test_a_page_that_came_without_tls_is_not_ours(box: Pillarbox) -> None:
    client = passed_on(box, "box.example.com")
    assert (await sign_in(client, ADMIN_KEY, ("origin", "http://box.example.com"))).status == 403


async def test_no_header_of_a_caller_says_where_our_pages_are(box: Pillarbox) -> None:
    client = passed_on(box, "127.0.0.1:8025")
    for header in ("x-forwarded-host", "forwarded", "x-forwarded-proto"):
        told = (header, "host=evil.example" if header == "forwarded" else "evil.example")
        reply = await sign_in(client, ADMIN_KEY, told, ("origin", "https://evil.example"))
        assert reply.status == 403


async def test_a_login_link_gives_a_secure_cookie_where_the_public_address_is_secure(box: Pillarbox) -> None:
    assert "; Secure" in (await sign_in(passed_on(box, "127.0.0.1:8025"))).headers["set-cookie"]


async def test_an_operator_on_the_machine_itself_can_sign_in_without_tls(box: Pillarbox) -> None:
    reply = await sign_in(passed_on(box, "127.0.0.1:8025"), ADMIN_KEY, ("origin", "http://127.0.0.1:8025"))
    assert reply.status == 303
    assert "Secure" not in reply.headers["set-cookie"]
