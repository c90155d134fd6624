import re

import pytest

from pillarbox.box import Pillarbox
from tests.api.client import Client
from tests.api.running import until, working

MARKETING = {"channel": "email", "to": "ann@example.com", "text": "Buy!", "category": "marketing"}
ONE_CLICK = b"List-Unsubscribe=One-Click"
FORM = [("content-type", "application/x-www-form-urlencoded")]
MULTIPART = (
    b'--x\r\nContent-Disposition: form-data; name="List-Unsubscribe"\r\n\r\nOne-Click\r\n--x--\r\n',
    [("content-type", "multipart/form-data; boundary=x")],
)


@pytest.fixture
def link(box: Pillarbox, acme: str) -> str:
    """The path of an unsubscribe link that was sent to Ann, made as the sender makes it."""
    return "/u/" + box.outbound._sealer.token(("unsubscribe", "acme", "ann@example.com"))


async def opted_out(client: Client, acme: str) -> list[tuple[str, str]]:
    items = (await client.get(f"{acme}/opt-outs")).json()["items"]
    return [(item["contact"], item["channel"]) for item in items]


async def test_looking_at_the_link_changes_nothing_and_needs_no_key(client: Client, acme: str, link: str) -> None:
    stranger = client.with_key(None)
    for _ in range(3):
        page = await stranger.get(link)
        assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert re.search(rb'<form method="post">.*name="List-Unsubscribe" value="One-Click"', page.body)
    assert b"ann@" not in page.body
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "script" not in page.body.decode()
    assert (await stranger.request("HEAD", link)).status == 200
    assert await opted_out(client, acme) == []


async def test_one_click_opts_out_of_email_at_that_tenant_only(client: Client, acme: str, link: str) -> None:
    await client.request("PUT", "/v1/tenants/other", {"providers": {"email": {"provider": "sandbox"}}})
    done = await client.with_key(None).post(link, ONE_CLICK, headers=FORM)
    assert done.status == 200
    assert await opted_out(client, acme) == [("ann@example.com", "email")]
    assert (await client.post(f"{acme}/messages", MARKETING)).reason == "opted-out"
    assert (await client.post("/v1/tenants/other/messages", MARKETING)).status == 202


async def test_it_may_be_clicked_again_and_posted_in_any_form(client: Client, acme: str, link: str) -> None:
    stranger = client.with_key(None)
    foreign = [("origin", "https://mail.example")]
    for body, headers in ((ONE_CLICK, FORM), MULTIPART, (b"", []), (ONE_CLICK, FORM + foreign)):
        assert (body, (await stranger.post(link, body, headers=headers)).status) == (body, 200)
    assert len(await opted_out(client, acme)) == 1


async def test_a_changed_token_is_404_and_changes_nothing(box: Pillarbox, client: Client, acme: str, link: str) -> None:
    stranger = client.with_key(None)
    token = link.removeprefix("/u/")
    flipped = [token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :] for at in (0, len(token) // 2, -2)]
    elsewhere = box.outbound._sealer.token(("login", "acme", "ann@example.com"))
    for bad in ("x", token[:-1], token + "A", token + "=", *flipped, elsewhere, "%C3%A9", "%0a", "A" * 60_000):
        for reply in (await stranger.get(f"/u/{bad}"), await stranger.post(f"/u/{bad}", ONE_CLICK, headers=FORM)):
            assert (bad[:80], reply.status) == (bad[:80], 404)
            assert b"ann@" not in reply.body
    for nowhere in ("/u", "/u/", f"{link}/", "/u/%00", "/u/%ff"):
        assert (nowhere, (await stranger.post(nowhere, ONE_CLICK)).status) == (nowhere, 404)
    assert await opted_out(client, acme) == []


async def test_the_link_of_a_deleted_tenant_is_404(client: Client, acme: str, link: str) -> None:
    assert (await client.request("DELETE", acme)).status == 204
    assert (await client.get(link)).status == 404
    assert (await client.post(link, ONE_CLICK)).status == 404


async def test_a_body_beyond_any_form_is_413_and_changes_nothing(client: Client, acme: str, link: str) -> None:
    refused = await client.with_key(None).post(link, b"x" * 9000)
    assert (refused.status, refused.reason) == (413, "too-large")
    assert "8 KiB" in refused.json()["detail"]
    assert await opted_out(client, acme) == []


async def test_other_methods_are_405(client: Client, link: str) -> None:
    for method in ("PUT", "DELETE", "PATCH"):
        assert (await client.with_key(None).request(method, link)).status == 405


async def test_a_message_queued_before_the_click_is_not_sent(
    box: Pillarbox, client: Client, acme: str, link: str
) -> None:
    queued = (await client.post(f"{acme}/messages", MARKETING | {"category": "transactional"})).json()
    assert (await client.post(link, ONE_CLICK)).status == 200
    async with working(box):
        path = f"{acme}/messages/{queued['message_id']}"
        stopped = await until(client, path, lambda message: message["status"] == "canceled")
    assert (stopped["attempt_count"], "opted out" in stopped["error_message"]) == (0, True)
