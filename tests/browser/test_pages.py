"""Every page opens without a complaint, and people who cannot see or use a mouse can use it."""

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Open
from tests.browser.stock import Stock
from tests.browser.watched import Watched
from tests.servers.daemon import Daemon

pytestmark = pytest.mark.asyncio(loop_scope="session")

HTML = "<h1 style='font-family:sans-serif'>Welcome, Ann</h1><p style='font-family:sans-serif'>It is good to have you here.</p>"

LIKE_ANOTHER = ("filtered", "failed-message", "text-message", "hooks")


@pytest.fixture(scope="module")
def places(daemon: Daemon) -> dict[str, str]:
    """The name of every page, and its address."""
    stock = Stock.make(daemon)
    first = stock.email(html=HTML, tags=["welcome"])
    failed = stock.email("ann+fail@example.com", "Your invoice for November")
    waiting = stock.email("bob+flaky@example.com", "Your order has shipped")
    stock.email("carla@example.com", "Reset your password")
    text = stock.send("sms", "+15005550006", text="Your code is 424242.")
    hook = stock.send(
        "webhook", "https://partner.example.com/orders", body={"id": 42}, headers={"X-Key": "a-hidden-value"}
    )
    blocked = stock.post("Can you look at the failing test?", actor_name="Ann", payload={"a": 1})
    stock.post("And deploy it, please.")
    event = stock.hook("agent_stop", summary="Done.")
    stock.until(failed, "failed")
    stock.until(waiting, "retrying")
    stock.until_blocked(blocked)
    assert daemon.call("POST", f"/v1/tenants/{stock.tenant}/opt-outs", {"contact": "dan@example.com"})[0] == 201
    daemon.call("POST", "/v1/inbox/try-begin", {"key": "orders:42"})
    return {
        "overview": "/",
        "messages": "/messages",
        "filtered": f"/messages?filter=tenant:{stock.tenant}",
        "message": f"/messages/{first}",
        "failed-message": f"/messages/{failed}",
        "retrying-message": f"/messages/{waiting}",
        "text-message": f"/messages/{text}",
        "webhook": f"/messages/{hook}",
        "edit": f"/messages/{first}/edit",
        "inbound": f"/inbound/{blocked}",
        "sessions": "/sessions",
        "session": f"/sessions/{stock.session}",
        "hooks": "/hooks",
        "hook": f"/hooks/{event}",
        "inbox": "/inbox?key=orders:42",
        "tenants": "/tenants",
        "tenant": f"/tenants/{stock.tenant}",
        "sandbox": "/sandbox",
        "audit": "/audit",
        "actions": "/actions?action=retry&filter=status:failed",
    }


async def test_every_page_opens_quietly_and_is_accessible(page: Watched, places: dict[str, str]) -> None:
    faults = {}
    for name, path in places.items():
        await page.goto(path)
        await expect(page.page.locator("h1")).to_be_attached()
        if name not in LIKE_ANOTHER and (found := await page.faults()):
            faults[name] = found
    assert faults == {}


async def test_pages_in_the_dark_can_be_read(open_page: Open, places: dict[str, str]) -> None:
    page = await open_page(dark=True)
    for name in ("overview", "failed-message", "tenant"):
        await page.goto(places[name])
        assert await page.faults() == []


async def test_no_page_is_wider_than_a_phone(open_page: Open, places: dict[str, str]) -> None:
    page = await open_page(phone=True)
    wider = {}
    for name, path in places.items():
        if name in LIKE_ANOTHER:
            continue
        await page.goto(path)
        width = await page.page.evaluate("document.documentElement.scrollWidth")
        if width > 390:
            wider[name] = width
    assert wider == {}


async def test_on_a_phone_the_page_that_is_shown_and_the_end_of_each_row_are_in_sight(
    open_page: Open, places: dict[str, str]
) -> None:
    page = await open_page(phone=True)
    for name, tab in (("audit", "Audit"), ("tenant", "Tenants")):
        await page.goto(places[name])
        here = await page.page.locator(f"nav a:text-is('{tab}')").bounding_box()
        end = await page.page.locator("table.log tbody tr >> nth=0 >> td:visible >> nth=-1").bounding_box()
        for box in (here, end):
            assert box is not None
            assert box["x"] >= 0, name
            assert box["x"] + box["width"] <= 390, name


async def test_every_message_is_two_steps_from_the_first_page(page: Watched, places: dict[str, str]) -> None:
    await page.goto("/")
    await page.page.click("nav >> text=Messages")
    for name in ("failed-message", "inbound"):
        await page.goto("/messages")
        await page.page.locator(f'a[href="{places[name]}"]').first.click()
        await expect(page.page).to_have_url(page.daemon.base_url + places[name])


async def test_a_message_tells_why_and_when_it_is_tried_again(page: Watched, places: dict[str, str]) -> None:
    outlook = page.page.locator("#outlook")
    await page.goto(places["retrying-message"])
    await expect(outlook).to_contain_text("It will be tried again in")
    await expect(outlook).to_contain_text("4 attempts left")
    await page.goto(places["failed-message"])
    await expect(outlook).to_contain_text("refused for good")
    await page.goto(places["inbound"])
    await expect(outlook).to_contain_text("what came after it in its session waits for it")


async def test_content_is_shown_as_its_channel_has_it(page: Watched, places: dict[str, str]) -> None:
    await page.goto(places["message"])
    frame = page.page.frame_locator("iframe.preview")
    await expect(frame.locator("h1")).to_have_text("Welcome, Ann")
    await page.goto(places["text-message"])
    await expect(page.page.locator("text=1 segment, GSM-7, 20 characters")).to_be_visible()
    await page.goto(places["webhook"])
    await expect(page.page.locator("#curl")).to_contain_text(
        "curl --globoff -X POST https://partner.example.com/orders"
    )
    await expect(page.page.locator("#curl")).to_contain_text("X-Key: …")
    await expect(page.page.locator("#curl")).not_to_contain_text("webhook-signature")
    await expect(page.page.locator("#signed")).to_have_count(0)
    assert "a-hidden-value" not in await page.page.content()


async def test_keys_filter_move_open_and_tell(page: Watched, places: dict[str, str]) -> None:
    await page.goto(places["filtered"])
    await page.page.keyboard.press("/")
    await expect(page.page.locator("#filter")).to_be_focused()
    await page.page.keyboard.press("Escape")
    await page.page.keyboard.press("j")
    await page.page.keyboard.press("j")
    second = page.page.locator("[data-row] >> nth=1")
    await expect(second).to_have_class("at")
    await page.page.keyboard.press("?")
    await expect(page.page.locator("dialog#keys")).to_be_visible()
    await page.page.keyboard.press("Escape")
    await page.page.keyboard.press("k")
    await page.page.keyboard.press("Enter")
    await expect(page.page.locator("#timeline-title")).to_be_visible()
    await page.page.keyboard.press("g")
    await page.page.keyboard.press("s")
    await expect(page.page.locator("h1")).to_have_text("Sessions")


async def test_what_is_not_there_is_said_to_be_missing(page: Watched) -> None:
    page.must_be_quiet = False
    answer = await page.page.goto("/sessions/no-such-session")
    assert answer is not None
    assert answer.status == 404
    await expect(page.page.locator("main")).to_contain_text("There is no session no-such-session")


async def test_a_page_that_cannot_be_shown_says_why_and_leads_on(page: Watched) -> None:
    page.must_be_quiet = False
    for path, status, sentence in (
        ("/hooks?cursor=x", 422, "cursor: "),
        ("/messages?colour=red", 422, "colour: Is not a known field."),
        ("/nowhere", 404, "There is no page at this address."),
    ):
        answer = await page.page.goto(path)
        assert answer is not None
        assert answer.status == status
        await expect(page.page.locator("#fault")).to_contain_text(sentence)
        assert await page.faults() == []
    await page.page.click("main >> text=Overview")
    await expect(page.page.locator("#needs")).to_be_visible()


async def test_the_description_of_the_api_breaks_no_word(open_page: Open) -> None:
    page = await open_page()
    await page.page.set_viewport_size({"width": 1280, "height": 900})
    await page.goto("/docs")
    broken = """() => [...document.querySelectorAll("th, td:first-child")].filter(
        (cell) => { const range = document.createRange(); range.selectNodeContents(cell);
                    return new Set([...range.getClientRects()].map((each) => Math.round(each.bottom / 8))).size > 1; }
    ).map((cell) => cell.textContent)"""
    assert await page.page.evaluate(broken) == []
    assert await page.page.evaluate("document.documentElement.scrollWidth") == 1280
    await page.page.set_viewport_size({"width": 390, "height": 844})
    assert await page.page.evaluate("document.documentElement.scrollWidth") == 390


async def test_a_session_is_named_once_on_its_page(page: Watched, places: dict[str, str]) -> None:
    await page.goto(places["session"])
    await expect(page.page.locator("main >> text=Ann's printer")).to_have_count(1)
