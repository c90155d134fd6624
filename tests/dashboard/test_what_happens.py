"""Pages of what happens: what a followed one holds, and what one of a message tells of its provider."""

from contextlib import ExitStack

from pillarbox.api.app import Api
from pillarbox.box import Pillarbox
from pillarbox.outbound.messages import Email
from tests.dashboard.signed_in import Browser
from tests.operators.filled import sql


async def test_a_page_that_cannot_be_followed_holds_no_place_at_the_log(browser: Browser, box: Pillarbox) -> None:
    """Two hundred pages may be followed, and a hundred may follow the log."""
    api = browser.client.app
    assert isinstance(api, Api)
    with ExitStack() as others:
        for _ in range(200):
            others.enter_context(api.watchers.one_more())
        for _ in range(101):
            assert (await browser.get("/live/messages")).status == 503
    async with box.log.follow() as changes:
        assert await anext(aiter(changes)) is None


async def test_a_message_shows_what_its_provider_was_asked_and_answered_as_text(
    browser: Browser, box: Pillarbox
) -> None:
    message_id = await box.outbound.send("acme", Email(to="fail@example.com", subject="s", text="t"))
    await box.outbound.drain.step()
    await sql(
        box,
        "UPDATE message_attempt SET request = :asked, response = :answered",
        asked="POST https://mail.example/send",
        answered="400\ncontent-type: text/html\n\n<script>alert(1)</script>",
    )
    page = await browser.page(f"/messages/{message_id}")
    assert '<pre tabindex="0">POST https://mail.example/send</pre>' in page
    assert "400\ncontent-type: text/html\n\n&lt;script&gt;alert(1)&lt;/script&gt;</pre>" in page
    assert "<script>alert" not in page
