"""What strangers write is shown and never runs, loads or leads anywhere."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle
from urllib.parse import quote

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Open
from tests.browser.payloads import payloads
from tests.browser.refusing import RefusingMailServer
from tests.browser.stock import AWAY, Stock
from tests.browser.watched import Watched
from tests.servers.daemon import Daemon
from tests.servers.provider_servers import Answer, provider_server

pytestmark = pytest.mark.asyncio(loop_scope="session")

TOGETHER = 20
SHOWN_HEADERS = ("Request-Id", "X-Request-Id", "Twilio-Request-Id", "X-Message-Id", "CF-Ray", "Content-Type")


class Outside:
    """A server that nobody should ever talk to; it notes whoever does."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.visits = 0
        threading.Thread(target=self._count, daemon=True).start()

    def _count(self) -> None:
        with suppress(OSError):
            while True:
                visitor, _ = self._listening.accept()
                self.visits += 1
                visitor.close()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


@pytest.fixture(scope="module")
def outside() -> Iterator[Outside]:
    server = Outside()
    yield server
    server.close()
    assert server.visits == 0


@pytest.fixture
def hostile(outside: Outside) -> list[str]:
    return payloads(outside.address)


def packs(hostile: list[str]) -> Iterator[tuple[int, str]]:
    """The payloads, some at once."""
    for start in range(0, len(hostile), TOGETHER):
        yield start, "\n".join(hostile[start : start + TOGETHER])


def bundles(hostile: list[str], most: int) -> Iterator[list[str]]:
    """The payloads, as many at once as have so many characters together with a blank after each."""
    bundle: list[str] = []
    for payload in hostile:
        if bundle and sum(map(len, bundle)) + len(bundle) + len(payload) > most:
            yield bundle
            bundle = []
        bundle.append(payload[:most])
    yield bundle


def cut(payload: str, most: int) -> str:
    return payload.replace("\n", " ")[:most]


async def is_calm(page: Watched) -> None:
    """Whatever wanted to start has had its chance: the page is loaded and has answered a script of ours."""
    await page.page.wait_for_load_state()
    await page.page.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    assert page.dialogs == []
    assert page.calls_outside == []


async def walk(page: Watched, path: str) -> int:
    """Go through a list to its end; answers how many rows there were."""
    await page.goto(path)
    rows: set[str] = set()
    while True:
        await is_calm(page)
        rows.update(await page.page.locator("[data-row] a").evaluate_all("links => links.map(link => link.href)"))
        following = page.page.locator("#next-page")
        if not await following.count():
            return len(rows)
        await page.goto(str(await following.get_attribute("href")))


async def test_a_visit_outside_would_be_noticed(page: Watched) -> None:
    server = Outside()
    await page.page.goto("about:blank")
    async with asyncio.timeout(60):
        while not server.visits:
            await page.page.evaluate("url => fetch(url, {mode: 'no-cors'}).catch(() => 0)", server.address)
    server.close()
    assert page.calls_outside
    page.calls_outside.clear()
    page.complaints.clear()
    assert len(set(payloads(server.address))) == 200


async def test_nothing_in_a_list_runs(open_page: Open, daemon: Daemon, hostile: list[str]) -> None:
    page = await open_page(quiet=False)
    stock = Stock.make(daemon)
    for payload in hostile:
        stock.send("push", cut(payload, 200).replace(" ", "/"), subject=cut(payload, 900), text="x")
        stock.post(payload, origin=cut(payload, 64), actor_name=cut(payload, 100))
        stock.hook(cut(payload, 60), summary=payload)
    assert await walk(page, f"/messages?filter=tenant:{stock.tenant}") == 200
    assert await walk(page, f"/messages?filter=session:{stock.session}") == 400
    await page.goto(f"/sessions/{stock.session}")
    await is_calm(page)


async def test_nothing_on_a_message_page_runs(open_page: Open, daemon: Daemon, hostile: list[str]) -> None:
    page = await open_page(quiet=False)
    stock = Stock.make(daemon)
    for start, together in packs(hostile):
        tags = [cut(payload, 64) for payload in hostile[start : start + TOGETHER]]
        message_id = stock.email(subject=cut(hostile[start], 900), text=together, html=together, tags=tags)
        await page.goto(f"/messages/{message_id}")
        frame = page.page.locator("iframe.preview")
        await frame.scroll_into_view_if_needed()
        await expect(page.page.frame_locator("iframe.preview").locator("html")).to_be_attached()
        await is_calm(page)
        # By itself it is a document in which no script of ours runs either; the next page tells whether one of theirs did.
        await page.goto(f"/messages/{message_id}/preview")
        await page.page.wait_for_load_state()
    first = stock.post("\n".join(hostile), payload={"all": hostile}, actor_name=hostile[0], source_message_id="x")
    await page.goto(f"/inbound/{first}")
    await is_calm(page)
    event = stock.hook("notification", all=hostile)
    await page.goto(f"/hooks/{event}")
    await is_calm(page)
    hook = stock.send("webhook", "https://example.com/?q=%3Cscript%3E'", body={"all": hostile})
    await page.goto(f"/messages/{hook}")
    await is_calm(page)
    await page.goto(f"/messages/{hook}/edit")
    await is_calm(page)


async def test_nothing_that_was_asked_or_answered_runs(open_page: Open, daemon: Daemon, hostile: list[str]) -> None:
    page = await open_page(quiet=False)
    stock = Stock.make(daemon)
    answers = list(bundles(hostile, 480))
    with RefusingMailServer("\n".join(bundle) for bundle in answers) as mail, provider_server() as server:
        smtp = {"provider": "smtp", "host": "127.0.0.1", "port": mail.port, "tls": "none"}
        tenant = {
            "providers": {"email": smtp, "webhook": {"provider": "webhook"}},
            "settings": {"trusted_destinations": [f"smtp://127.0.0.1:{mail.port}", server.origin]},
        }
        assert daemon.call("PUT", f"/v1/tenants/{stock.tenant}", tenant)[0] == 200
        asked = [bundle_of_words(bundle) for bundle in bundles(hostile, 250)]
        turns = cycle(quote(payload)[:200] for payload in hostile)
        server.arrange = lambda call: Answer(400, {name: next(turns) for name in SHOWN_HEADERS})
        hooks = [stock.send("webhook", f"{server.origin}/{path}", body={}) for path in asked]
        refused = stock.email(subject="Hi", text="Hi")
        for _ in answers[1:]:
            stock.until(refused, "failed")
            assert daemon.call("POST", f"/v1/tenants/{stock.tenant}/messages/{refused}/retry", {})[0] == 202
        assert len(stock.until(refused, "failed")["attempts"]) == len(answers)
        for hook in hooks:
            stock.until(hook, "failed")
    shown = ""
    for message_id in (refused, *hooks):
        await page.goto(f"/messages/{message_id}")
        shown += await page.page.inner_text("main")
    await is_calm(page)
    assert shown.count("alert(1)") > 3 * sum("alert(1)" in payload for payload in hostile) * 0.9


def bundle_of_words(bundle: list[str]) -> str:
    return quote("/".join(bundle).replace(" ", "/"), safe="")


async def test_no_name_of_a_session_tenant_key_or_filter_runs(
    open_page: Open, daemon: Daemon, hostile: list[str]
) -> None:
    page = await open_page(quiet=False)
    stock = Stock.make(daemon)
    for payload in hostile:
        session = {"session_id": cut(payload, 190), "title": payload, "agent": cut(payload, 100), "target": AWAY}
        assert daemon.call("POST", "/v1/sessions", session)[0] in (201, 409)
    for start, together in packs(hostile):
        opt_out = {"contact": f"person{start}@example.com", "reason": together[:1000]}
        assert daemon.call("POST", f"/v1/tenants/{stock.tenant}/opt-outs", opt_out)[0] == 201
    assert await walk(page, "/sessions") >= 190
    daemon.call("PUT", f"/v1/tenants/{stock.tenant}", {"name": cut(hostile[6], 200)})
    for path in ("/tenants", f"/tenants/{stock.tenant}", "/", "/audit"):
        await page.goto(path)
        await is_calm(page)
    link = daemon.call("POST", f"/v1/tenants/{stock.tenant}/embed-links", {})[1]["url"]
    link = link.removeprefix(daemon.base_url)
    for start, together in packs(hostile):
        for path in ("/messages?filter=", "/inbox?key=", f"{link}?filter="):
            await page.goto(path + quote(together, safe=""))
            typed = page.page.locator("main input[name=filter], main input[name=key]").first
            assert await typed.input_value() == together.replace("\n", "")
        await page.goto(f"/sessions/{quote(cut(hostile[start], 190), safe='')}")
        await is_calm(page)
    for bundle in bundles(hostile, 330):
        await page.goto(f"/actions?action=retry&filter={quote(naming(bundle), safe='')}")
        assert bundle[0].strip("\u202e") in await page.page.inner_text("main")
    await is_calm(page)


def naming(sessions: list[str]) -> str:
    """A filter for sessions of these names."""
    escaped = (name.replace("\\", "\\\\").replace('"', '\\"') for name in sessions)
    return "session:" + ",".join(f'"{name}"' for name in escaped)
