"""The pictures of the documentation, taken of a real daemon at work."""

import random
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Open
from tests.browser.stock import AWAY, SANDBOX, Stock
from tests.servers.daemon import Daemon

pytestmark = pytest.mark.asyncio(loop_scope="session")

TENANTS = {"acme": "Acme Ltd", "globex": "Globex", "initech": "Initech"}
SUBJECTS = (
    "Welcome aboard",
    "Your invoice for November",
    "Reset your password",
    "Your order has shipped",
    "Payment received",
)
PEOPLE = ("ann", "bob", "carla", "dan", "eve", "fred", "gina")
ASKED = ("Can you look at the failing test?", "Deploy it, please.", "What is the state of the migration?")
HTML = "<h1 style='font-family:sans-serif'>Welcome, {}</h1><p style='font-family:sans-serif'>It is good to have you here.</p>"
_ROUNDS = 60


def send_something(stock: Stock, dice: random.Random) -> None:
    person = dice.choice(PEOPLE)
    trouble = dice.choices(("", "+fail", "+flaky"), (40, 1, 2))[0]
    match dice.choice(("email", "email", "sms", "webhook", "push")):
        case "email":
            html = HTML.format(person.capitalize())
            stock.email(f"{person}{trouble}@example.com", dice.choice(SUBJECTS), html=html, tags=["november"])
        case "sms":
            stock.send("sms", "+15005550006", text=f"Your code is {dice.randint(100_000, 999_999)}.")
        case "webhook":
            stock.send(
                "webhook", "https://partner.example.com/orders", body={"event": "order.created", "total": "42.00"}
            )
        case _:
            stock.send("push", f"device-{dice.randint(1, 99)}", subject="New message", text="You have mail.")


def open_shop(daemon: Daemon) -> list[Stock]:
    stocks = []
    for tenant, name in TENANTS.items():
        daemon.call("PUT", f"/v1/tenants/{tenant}", {"name": name, "providers": SANDBOX})
        stocks.append(Stock(daemon, tenant, "build-bot"))
    for session, title in (("support-42", "Support: Ann's printer"), ("build-bot", "Build bot")):
        daemon.call("POST", "/v1/sessions", {"session_id": session, "title": title, "target": AWAY, "agent": "claude"})
    for content in ASKED:
        Stock(daemon, "acme", "support-42").post(content, actor_name="Ann")
    return stocks


@pytest.mark.timeout(300)
async def test_pictures_are_taken(open_page: Open, daemon: Daemon, pictures: Path) -> None:
    dice = random.Random(7)
    stocks = open_shop(daemon)
    page = await open_page()
    await page.goto("/")
    for _ in range(_ROUNDS):
        for _ in range(dice.randint(1, 12)):
            send_something(dice.choice(stocks), dice)
        stocks[0].hook(dice.choice(("tool_use", "agent_stop", "notification")), step=1)
        await page.page.wait_for_timeout(500)
    await page.page.screenshot(path=pictures / "dashboard.png")
    failed = stocks[0].email("hugo+flaky@example.com", "Please confirm your address", html=HTML.format("Hugo"))
    stocks[0].until(failed, "retrying")
    shots = {
        "messages": "/messages?filter=tenant:acme",
        "message": f"/messages/{failed}",
        "sessions": "/sessions",
        "tenant": "/tenants/acme",
        "sandbox": "/sandbox",
    }
    for name, path in shots.items():
        await page.goto(path)
        await page.page.screenshot(path=pictures / f"{name}.png")
    dark, phone = await open_page(dark=True), await open_page(phone=True)
    await dark.goto("/")
    await expect(dark.page.locator("[data-plot] canvas")).to_have_count(3)
    await dark.page.screenshot(path=pictures / "dashboard-dark.png")
    await phone.goto("/messages")
    await phone.page.screenshot(path=pictures / "messages-phone.png")
