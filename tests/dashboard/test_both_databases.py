"""What the pages read by themselves, on each database."""

from collections.abc import AsyncIterator

import pytest

from pillarbox.api.app import create_app
from pillarbox.box import Pillarbox
from pillarbox.dashboard.pulse import Pulse
from pillarbox.outbound.messages import Webhook, attached
from pillarbox.outbound.model import NewMessage
from pillarbox.settings import load_settings
from tests.api.client import ADMIN_KEY, Client
from tests.dashboard.signed_in import Browser, cookie_of, sign_in
from tests.servers.daemon import key_for


@pytest.fixture
async def box(database_url: str) -> AsyncIterator[Pillarbox]:
    settings = load_settings(environ=key_for(database_url))
    async with Pillarbox.open(database_url, settings=settings, node="here") as opened:
        await opened.tenants.set("acme", providers={"email": {"provider": "sandbox"}})
        yield opened


async def test_what_another_process_does_shows_in_the_flow(box: Pillarbox, database_url: str) -> None:
    settings = load_settings(environ=key_for(database_url))
    async with Pillarbox.open(database_url, settings=settings, node="elsewhere") as worker:
        pulse = Pulse(box)
        await worker.nodes.beat()
        await pulse.look()
        worker.metrics.outbound.sent.labels(channel="sms").inc(5)
        await worker.nodes.beat()
        point = await pulse.look()
    assert point.series["outbound.sms"].well > 0


async def test_content_is_read_without_secrets_and_sent_again_with_them(box: Pillarbox) -> None:
    hook = Webhook(url="https://example.com/x", body={"a": 1}, headers={"X-Key": "hidden"}, method="PUT")
    message_id = await box.outbound.send("acme", hook)
    content = await box.outbound.contents.get(message_id)
    assert (content.method, dict(content.headers)) == ("PUT", {"X-Key": "***"})
    _, again = await box.outbound.contents.again(message_id, {"body": '{"a": 2}'})
    assert (again.headers, again.body, again.method) == ({"X-Key": "hidden"}, {"a": 2}, "PUT")
    new = NewMessage(
        channel="email",
        to="ann@example.com",
        text="t",
        from_="a@b.io",
        attachments=(attached("a.txt", b"12345"),),
    )
    email = await box.outbound.contents.get(await box.outbound.send("acme", new))
    assert [(file.filename, file.size, file.kept) for file in email.attachments] == [("a.txt", 5, "content")]


async def test_every_page_opens(box: Pillarbox) -> None:
    client = Client(create_app(box, admin_key=ADMIN_KEY)).with_key(None)
    browser = Browser(client, cookie_of(await sign_in(client)))
    await box.sessions.open(session_id="s", target={"kind": "python", "name": "nobody"})
    number = (await box.inbound.enqueue(session_id="s", origin="x", content="y")).id
    event = (await box.hooks.post("s", "agent_stop")).id
    message_id = await box.outbound.send("acme", Webhook(url="https://example.com/x", body=1))
    paths = ["/", "/messages", "/messages?filter=status:pending", "/actions?action=cancel&filter=status:pending"]
    paths += [
        "/sessions",
        "/sessions?blocked=true",
        "/sessions/s",
        "/hooks",
        "/inbox?key=k",
        "/tenants",
        "/tenants/acme",
    ]
    paths += ["/sandbox", "/audit", f"/messages/{message_id}", f"/inbound/{number}", f"/hooks/{event}"]
    for path in paths:
        assert "</html>" in await browser.page(path)
    assert (await browser.get("/messages?cursor=x")).status == 422
    assert (await browser.get("/messages/unknown")).status == 404
