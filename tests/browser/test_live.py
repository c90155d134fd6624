"""Pages change while they are looked at; filters and actions reach all that match."""

import re
from urllib.parse import quote

import pytest
from playwright.async_api import expect

from tests.browser.stock import Stock
from tests.browser.watched import Watched
from tests.servers.daemon import Daemon

pytestmark = pytest.mark.asyncio(loop_scope="session")

FILTERS = {
    "status:failed": {"fail"},
    "status:failed,sent": {"fail", "text", "plain"},
    "-status:failed": {"text", "plain"},
    "channel:sms": {"text"},
    "error:rejected": {"fail"},
    "tag:vip priority:<50": {"plain"},
    "age:>5m": set(),
    "to:ann@example.com": {"plain"},
}


@pytest.fixture
def stock(daemon: Daemon) -> Stock:
    return Stock.make(daemon)


async def test_the_log_shows_what_comes_in_and_what_becomes_of_it(page: Watched, stock: Stock) -> None:
    await page.goto(f"/messages?filter=tenant:{stock.tenant}")
    await expect(page.page.locator("#tail")).to_have_text("live")
    message_id = stock.email("ann+flaky@example.com", "Comes in live")
    row = page.page.locator(f"#outbound-{message_id}")
    await expect(row).to_contain_text("Comes in live")
    await expect(row.locator(".badge").first).to_have_text("retrying")
    stock.daemon.call("POST", f"/v1/tenants/{stock.tenant}/messages/{message_id}/cancel", {})
    await expect(row.locator(".badge").first).to_have_text("canceled")
    await expect(page.page.locator("#rows tr")).to_have_count(1)


async def test_whatever_will_be_tried_again_is_found_as_retrying(page: Watched, stock: Stock) -> None:
    await page.goto(f"/messages?filter=session:{stock.session} status:retrying")
    await expect(page.page.locator("#nothing")).to_contain_text("Nothing matches")
    await expect(page.page.locator("#all-retry")).to_be_hidden()
    await expect(page.page.locator("#tail")).to_have_text("live")
    waiting = stock.post("Two lines\nfor nobody")
    row = page.page.locator(f"#inbound-{waiting}")
    await expect(row).to_contain_text("Two lines for nobody")
    await expect(row.locator(".badge").first).to_have_text("retrying")
    await expect(page.page.locator("#all-retry")).to_be_visible()
    await row.locator("a").click()
    await expect(page.page.locator("h1")).to_have_text("Two lines for nobody")
    await expect(page.page.locator("h1 + .badge")).to_have_text("retrying")


async def test_what_no_longer_matches_leaves_the_log(page: Watched, stock: Stock) -> None:
    message_id = stock.email("ann+flaky@example.com", "Leaves")
    stock.until(message_id, "retrying")
    await page.goto(f"/messages?filter=tenant:{stock.tenant} status:retrying")
    await expect(page.page.locator("#tail")).to_have_text("live")
    await expect(page.page.locator(f"#outbound-{message_id}")).to_be_visible()
    stock.daemon.call("POST", f"/v1/tenants/{stock.tenant}/messages/{message_id}/cancel", {})
    await expect(page.page.locator("#rows tr")).to_have_count(0)


async def test_a_paused_log_gathers_and_then_goes_on(page: Watched, stock: Stock) -> None:
    await page.goto(f"/messages?filter=tenant:{stock.tenant}")
    await expect(page.page.locator("#tail")).to_have_text("live")
    await page.page.click("#pause")
    first, second = stock.email(subject="One"), stock.email(subject="Two")
    await expect(page.page.locator("#tail")).to_have_text("paused, 2 new")
    await expect(page.page.locator("#rows tr")).to_have_count(0)
    await page.page.click("#pause")
    await expect(page.page.locator("#rows tr")).to_have_count(2)
    assert first != second


async def test_the_overview_changes_by_itself(page: Watched, stock: Stock) -> None:
    await page.goto("/")
    await expect(page.page.locator("[data-plot] canvas")).to_have_count(3)
    number = stock.post("Blocks its session")
    stock.until_blocked(number)
    await expect(page.page.locator(f'#latest a[href="/inbound/{number}"]')).to_be_visible()
    await expect(page.page.locator("#rates[data-last]")).to_be_attached()
    await expect(page.page.locator("#nodes")).to_contain_text("serve")


async def test_a_message_page_follows_its_message(page: Watched, stock: Stock) -> None:
    message_id = stock.email("ann+flaky@example.com")
    stock.until(message_id, "retrying")
    await page.goto(f"/messages/{message_id}")
    stock.daemon.call("POST", f"/v1/tenants/{stock.tenant}/messages/{message_id}/cancel", {})
    await expect(page.page.locator("h1 + .badge")).to_have_text("canceled")


async def test_the_filter_finds_what_it_says(page: Watched, stock: Stock) -> None:
    made = {
        "fail": stock.email("ann+fail@example.com"),
        "text": stock.send("sms", "+15005550006", text="Hi"),
        "plain": stock.email("ann@example.com", tags=["vip"], priority=10),
    }
    stock.until(made["fail"], "failed"), stock.until(made["text"], "sent"), stock.until(made["plain"], "sent")
    for term, matches in FILTERS.items():
        await page.goto(f"/messages?filter={quote(f'tenant:{stock.tenant} {term}')}")
        found = await page.page.locator("#rows tr").evaluate_all("rows => rows.map(row => row.id)")
        assert set(found) == {f"outbound-{made[name]}" for name in matches}, term
    await page.page.fill("#filter", f"tenant:{stock.tenant} channel:sms")
    await page.page.keyboard.press("Enter")
    await expect(page.page.locator(f"#outbound-{made['text']}")).to_be_visible()
    await expect(page.page).to_have_url(re.compile("channel%3Asms"))


async def test_a_filter_that_cannot_be_read_is_explained(page: Watched) -> None:
    page.must_be_quiet = False
    await page.goto("/messages?filter=colour:red")
    await expect(page.page.locator("#fault")).to_contain_text("Colour")
    await expect(page.page.locator("#filter")).to_have_value("colour:red")


async def test_all_that_match_are_counted_and_then_retried(page: Watched, stock: Stock) -> None:
    failed = [stock.email(f"ann{number}+fail@example.com") for number in range(60)]
    for message_id in failed:
        stock.until(message_id, "failed")
    await page.goto(f"/messages?filter=tenant:{stock.tenant}")
    await page.page.click("#all-retry")
    await expect(page.page.locator("#matching")).to_have_text("60")
    assert stock.until(failed[0], "failed")["attempt_count"] == 1
    await page.page.click("#begin")
    await expect(page.page.locator("h1 + .badge")).to_have_text("done")
    await expect(page.page.locator("#progress")).to_contain_text("60 done, 0 stayed as they were")
    for message_id in failed:
        path = f"/v1/tenants/{stock.tenant}/messages/{message_id}"
        stock.daemon.until(path, lambda message: message["attempt_count"] == 2 and message["status"] == "failed")


async def test_the_log_is_paged_without_a_gap_or_a_double(page: Watched, stock: Stock) -> None:
    made = {f"outbound-{stock.email(subject=str(number))}" for number in range(120)}
    await page.goto(f"/messages?filter=tenant:{stock.tenant}")
    seen: list[str] = []
    while True:
        seen += await page.page.locator("#rows tr").evaluate_all("rows => rows.map(row => row.id)")
        following = page.page.locator("#next-page")
        if not await following.count():
            break
        await following.click()
        await page.page.wait_for_load_state()
    assert len(seen) == 120
    assert set(seen) == made
    assert sorted(seen, reverse=True) == seen
