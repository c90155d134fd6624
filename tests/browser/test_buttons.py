"""Every button does what it says, and the page then shows what is true."""

import re

import pytest
from playwright.async_api import expect

from tests.browser.stock import Stock
from tests.browser.watched import Watched
from tests.servers.daemon import Daemon

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture
def stock(daemon: Daemon) -> Stock:
    return Stock.make(daemon)


async def test_a_failed_message_is_retried(page: Watched, stock: Stock) -> None:
    message_id = stock.email("ann+fail@example.com")
    stock.until(message_id, "failed")
    await page.goto(f"/messages/{message_id}")
    await page.page.click("#retry")
    await expect(page.page.locator(".notice.good")).to_contain_text("Queued again")
    await expect(page.page.locator(".timeline li", has_text="operator")).to_have_count(1)
    await expect(page.page.locator(".timeline li", has_text="Queued again by an operator")).to_contain_text("login:")
    await expect(page.page.locator(".timeline")).to_contain_text("Attempt 2")
    await expect(page.page.locator("h1 + .badge")).to_have_text("failed")
    assert stock.until(message_id, "failed")["attempt_count"] == 2


async def test_a_waiting_message_is_canceled_when_that_is_confirmed(page: Watched, stock: Stock) -> None:
    message_id = stock.email("ann+flaky@example.com")
    stock.until(message_id, "retrying")
    await page.goto(f"/messages/{message_id}")
    page.confirms = False
    await page.page.click("#cancel")
    assert stock.until(message_id, "retrying")
    page.confirms = True
    await page.page.click("#cancel")
    await expect(page.page.locator("h1 + .badge")).to_have_text("canceled")
    await expect(page.page.locator("#cancel")).to_have_count(0)
    await expect(page.page.locator("#retry")).to_be_visible()
    assert stock.until(message_id, "canceled")


async def test_a_button_that_comes_too_late_tells_the_true_state(page: Watched, stock: Stock) -> None:
    message_id = stock.email("ann+flaky@example.com")
    stock.until(message_id, "retrying")
    await page.goto(f"/messages/{message_id}")
    stock.daemon.call("POST", f"/v1/tenants/{stock.tenant}/messages/{message_id}/cancel", {})
    await page.page.evaluate("document.querySelector('#cancel').form.submit()")
    await expect(page.page.locator(".notice.bad")).to_contain_text("is canceled")
    await expect(page.page.locator("h1 + .badge")).to_have_text("canceled")


async def test_a_message_is_edited_and_sent_again(page: Watched, stock: Stock) -> None:
    message_id = stock.email("ann+fail@example.com", html="<p>Old</p>", tags=["first"])
    stock.until(message_id, "failed")
    await page.goto(f"/messages/{message_id}")
    await page.page.click("#edit")
    await page.page.fill("#to", "not an address")
    await page.page.click("#resend")
    await expect(page.page.locator(".notice.bad")).to_contain_text("to: ")
    await page.page.fill("#to", "ann@example.com")
    await page.page.fill("#subject", "Now with the right address")
    await page.page.fill("#html", "<p>New</p>")
    page.complaints.clear()
    await page.page.click("#resend")
    await expect(page.page.locator("h1")).to_have_text("Now with the right address")
    resent = page.page.url.rpartition("/")[2]
    assert resent != message_id
    found = stock.until(resent, "sent")
    assert (found["to_address"], found["body_html"], found["tags"]) == ("ann@example.com", "<p>New</p>", ["first"])
    assert stock.until(message_id, "failed")["subject"] == "Welcome aboard"


async def test_a_webhook_sent_again_keeps_its_secret_headers(page: Watched, stock: Stock) -> None:
    headers = {"X-Key": "a-secret-value"}
    message_id = stock.send("webhook", "https://partner.example.com/fail", body={"id": 1}, headers=headers)
    stock.until(message_id, "failed")
    await page.goto(f"/messages/{message_id}/edit")
    assert "a-secret-value" not in await page.page.content()
    await page.page.fill("#to", "https://partner.example.com/orders")
    await page.page.fill("#body", '{"id": 2}')
    await page.page.click("#resend")
    await expect(page.page.locator("#curl")).to_contain_text("X-Key")
    resent = stock.until(page.page.url.rpartition("/")[2], "delivered")
    assert resent["body_text"] == '{"id":2}'


async def test_a_blocked_session_is_retried_expired_and_closed(page: Watched, stock: Stock) -> None:
    first, second = stock.post("one"), stock.post("two")
    stock.until_blocked(first)
    await page.goto("/sessions?blocked=true")
    await page.page.click(f'a[href="/sessions/{stock.session}"]')
    await expect(page.page.locator(".lane")).to_contain_text("Blocked by message")
    await page.page.click(f"#retry-{first}")
    await expect(page.page.locator(".notice.good")).to_contain_text("is tried now")
    stock.daemon.until(f"/v1/inbound/{first}", lambda message: message["attempt_count"] >= 2)
    await page.page.click(f"#expire-{first}")
    await expect(page.page.locator(".notice.good")).to_contain_text("expired")
    await expect(page.page.locator(f'.lane a[href="/inbound/{second}"]')).to_be_visible()
    await page.page.click(".lane >> text=Close")
    await expect(page.page.locator(".notice.good")).to_contain_text("1 waiting message expired")
    await expect(page.page.locator("h1 + .badge")).to_have_text("closed")
    await expect(page.page.locator(".lane form")).to_have_count(0)


async def test_an_event_that_was_closed_with_an_error_goes_again(page: Watched, stock: Stock) -> None:
    event = stock.hook("notification", refuse=True)
    stock.daemon.until(f"/v1/hooks/{event}", lambda found: found["status"] == "dead")
    await page.goto("/hooks?status=dead")
    await page.page.click(f'a[href="/hooks/{event}"]')
    await expect(page.page.locator("#outlook")).to_contain_text("closed with an error")
    await page.page.click("#retry")
    await expect(page.page.locator(".notice.good")).to_contain_text("goes again")
    await expect(page.page.locator("h1 + .badge")).to_have_text("delivered")
    await expect(page.page.locator(".timeline")).to_contain_text("Retry by an operator")


async def test_an_inbound_message_is_given_up(page: Watched, stock: Stock) -> None:
    number = stock.post()
    stock.until_blocked(number)
    await page.goto(f"/inbound/{number}")
    await page.page.click("#expire")
    await expect(page.page.locator("h1 + .badge")).to_have_text("expired")
    await expect(page.page.locator("#expire")).to_have_count(0)
    await expect(page.page.locator(".timeline")).to_contain_text("Expire by an operator")


async def test_a_tenant_is_made_changed_and_its_contacts_opted_out_and_forgotten(page: Watched, stock: Stock) -> None:
    tenant = f"{stock.tenant}-new"
    await page.goto("/tenants")
    await page.page.fill("#tenant", tenant)
    await page.page.fill("#name", "New Ltd")
    await page.page.click("#create")
    await expect(page.page.locator("h1")).to_have_text("New Ltd")
    await page.page.fill("#document", '{"name": "Newer Ltd", "settings": {"rate_per_minute": 60}}')
    await page.page.click("#save")
    await expect(page.page.locator("h1")).to_have_text("Newer Ltd")
    await page.page.fill(
        "#document", '{"providers": {"email": {"provider": "sandbox", "credentials": {"x": "plain"}}}}'
    )
    await page.page.click("#save")
    await expect(page.page.locator("#document-fault")).to_contain_text("providers.email")
    await expect(page.page.locator("#document")).to_have_value(re.compile('"x": "plain"'))
    await expect(page.page.locator("#document")).to_be_focused()
    page.complaints.clear()
    await page.page.fill("#opt-contact", "Dan@Example.com")
    await page.page.fill("#opt-reason", "asked by phone")
    await page.page.click("#opt-out")
    await expect(page.page.locator("text=dan@example.com")).to_be_visible()
    await page.page.click("text=Remove")
    await expect(page.page.locator("text=Nobody opted out")).to_be_visible()
    message_id = stock.email("gone@example.com")
    stock.until(message_id, "sent")
    await page.goto(f"/tenants/{stock.tenant}")
    await page.page.fill("#forget-contact", "gone@example.com")
    await page.page.click("#forget")
    await expect(page.page.locator(".notice.good")).to_contain_text("1 message")
    await page.goto(f"/messages/{message_id}")
    await expect(page.page.locator("main .facts").first).to_contain_text("forgotten")


async def test_two_operators_who_change_a_tenant_do_not_overwrite_one_another(page: Watched, stock: Stock) -> None:
    page.must_be_quiet = False
    await page.goto(f"/tenants/{stock.tenant}")
    assert stock.daemon.call("PUT", f"/v1/tenants/{stock.tenant}", {"name": "Theirs"})[0] == 200
    await page.page.fill("#document", '{"name": "Mine"}')
    await page.page.click("#save")
    await expect(page.page.locator("#document-fault")).to_contain_text("key:configured changed this tenant")
    await expect(page.page.locator("#stored")).to_contain_text('"name": "Theirs"')
    await expect(page.page.locator("#document")).to_have_value('{"name": "Mine"}')
    assert await page.faults() == []
    await page.page.click("#save")
    await expect(page.page.locator("h1")).to_have_text("Mine")


async def test_the_next_sends_of_the_sandbox_fail_as_arranged(page: Watched, stock: Stock) -> None:
    await page.goto("/sandbox")
    await page.page.select_option("#channel", "push")
    await page.page.select_option("#trouble", "fail")
    await page.page.click("#arrange")
    await expect(page.page.locator("#controls")).to_contain_text("push: fail")
    failed = stock.send("push", "device-1", text="Hello")
    stock.until(failed, "failed")
    sent = stock.send("push", "device-2", text="Hello")
    stock.until(sent, "sent")
    await page.goto("/sandbox")
    await expect(page.page.locator(f'a[href="/messages/{sent}"]')).to_be_visible()
    await page.page.fill("#times", "3")
    await page.page.select_option("#channel", "push")
    await page.page.click("#arrange")
    await page.page.click("#clear")
    await expect(page.page.locator("#controls")).to_have_count(0)


async def test_a_tenant_reads_its_own_messages_by_a_link_until_it_is_ended(page: Watched, stock: Stock) -> None:
    other = Stock.make(stock.daemon)
    stock.email(subject="Mine"), other.email(subject="Not mine")
    await page.goto(f"/tenants/{stock.tenant}")
    await page.page.click("#embed")
    link = await page.page.locator("#link").inner_text()
    reader = await page.page.context.browser.new_context(base_url=page.daemon.base_url)  # type: ignore[union-attr]
    try:
        reading = await reader.new_page()
        await reading.goto(link)
        await expect(reading.locator("text=Mine").first).to_be_visible()
        assert "Not mine" not in await reading.content()
        assert await reading.locator("form[method=post]").count() == 0
        await reading.goto(f"{link}?filter=tenant:{other.tenant}")
        assert "Not mine" not in await reading.content()
        await reading.goto("/messages")
        await expect(reading).to_have_url(f"{page.daemon.base_url}/login")
        await page.goto(f"/tenants/{stock.tenant}")
        await page.page.click("#revoke-links")
        await expect(page.page.locator(".notice.good")).to_contain_text("ended")
        gone = await reading.goto(link)
        assert gone is not None
        assert gone.status == 404
    finally:
        await reader.close()


async def test_what_was_done_stands_in_the_audit(page: Watched, stock: Stock) -> None:
    message_id = stock.email("ann+fail@example.com")
    stock.until(message_id, "failed")
    await page.goto(f"/messages/{message_id}")
    await page.page.click("#retry")
    await expect(page.page.locator(".notice.good")).to_be_visible()
    await page.goto("/audit")
    row = page.page.locator("tr", has=page.page.locator(f'a[href="/messages/{message_id}"]'))
    await expect(row).to_contain_text("retry")
    await expect(row).to_contain_text("login:")
    await expect(row).to_contain_text("done")


async def test_signing_in_and_out(page: Watched) -> None:
    await page.page.context.clear_cookies()
    await page.goto("/messages")
    await page.page.fill("#key", "not the key")
    await page.page.click("button")
    await expect(page.page.locator(".notice.bad")).to_have_text("That is not a valid admin key.")
    page.complaints.clear()
    await page.page.fill("#key", page.daemon.admin_key or "")
    await page.page.click("button")
    await expect(page.page.locator("#needs")).to_be_visible()
    await page.page.click("text=Sign out")
    await expect(page.page).to_have_url(f"{page.daemon.base_url}/login")
    await page.goto("/messages")
    await expect(page.page).to_have_url(f"{page.daemon.base_url}/login")


async def test_a_form_on_another_site_does_nothing(page: Watched, stock: Stock) -> None:
    page.must_be_quiet = False
    message_id = stock.email("ann+fail@example.com")
    stock.until(message_id, "failed")
    await page.goto(f"/messages/{message_id}")
    token = await page.page.locator("input[name=form_token]").first.input_value()
    action = f"{page.daemon.base_url}/messages/{message_id}/retry"
    await page.page.goto("about:blank")
    await page.page.set_content(
        f'<form method="post" action="{action}"><input name="form_token" value="{token}"><button>Go</button></form>'
    )
    async with page.page.expect_navigation() as led:
        await page.page.click("button")
    answer = await led.value
    assert answer is not None
    assert answer.status == 403
    assert stock.until(message_id, "failed")["attempt_count"] == 1
