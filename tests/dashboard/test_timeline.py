"""What an operator did is told once, with who did it."""

import re

from pillarbox.audit import acting_as
from pillarbox.box import Pillarbox
from pillarbox.outbound.messages import Email, Sms
from tests.dashboard.signed_in import Browser


def moments(page: str) -> list[str]:
    (timeline,) = re.findall(r'<ol class="timeline">(.*?)</ol>', page, re.DOTALL)
    return re.findall(r"<strong><bdi>(.*?)</bdi></strong>", timeline)


async def test_a_cancel_and_a_retry_are_each_one_entry_with_who_did_it(browser: Browser, box: Pillarbox) -> None:
    message_id = await box.outbound.send("acme", Email(to="ann@example.com", subject="s", text="t", from_="a@b.io"))
    with acting_as("cli:grace"):
        await box.outbound.cancel(message_id)
    assert (await browser.post(f"/messages/{message_id}/retry")).status == 303
    page = await browser.page(f"/messages/{message_id}")
    assert sorted(moments(page)) == ["Canceled", "Queued", "Queued again by an operator"]
    assert page.count("cli:grace") == 1
    assert page.count("login:") == 1
    assert re.search(r'notice good"><bdi>([^<]*)<', page)[1] == "Queued again; below is what became of it."  # type: ignore[index]


async def test_an_expired_chat_message_is_told_once(browser: Browser, box: Pillarbox) -> None:
    await box.sessions.open(session_id="s", target={"kind": "python", "name": "nobody"})
    number = (await box.inbound.enqueue(session_id="s", origin="x", content="y")).id
    assert (await browser.post(f"/inbound/{number}/expire")).status == 303
    assert moments(await browser.page(f"/inbound/{number}")) == ["Received from x", "Expire by an operator"]


async def test_a_message_without_a_subject_is_known_by_its_recipient(browser: Browser, box: Pillarbox) -> None:
    message_id = await box.outbound.send("acme", Sms(to="+15005550006", text="Your code is 1."))
    for path in ("/messages", "/", f"/messages/{message_id}"):
        assert "sms to +15005550006" in await browser.page(path), path
