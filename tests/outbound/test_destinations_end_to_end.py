"""Where a tenant's messages cannot be made to go, and where they can, through a whole box."""

import json
import socket
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest
from standardwebhooks import Webhook as Verifier

from pillarbox.box import Pillarbox
from pillarbox.errors import InvalidInput
from pillarbox.outbound.client import Client
from pillarbox.outbound.messages import Email, Message, Webhook
from pillarbox.outbound.model import NewAttachment, NewTenant, OutboundMessage, TenantSettings
from tests.outbound.end_to_end import PROVIDERS, SIGNING_SECRET, TENANT, drained, put_tenant, sending_box, until_ended
from tests.outbound.forbidden_places import FORBIDDEN_ADDRESSES, FORBIDDEN_URLS, LINK_LOCAL
from tests.servers.daemon import Daemon
from tests.servers.provider_servers import Answer, ProviderServer, provider_server

PUBLIC = "93.184.215.14"


class Names:
    """A name server of the test's own; each question takes the next answer, the last one again and again."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Sequence[str]]] = {}
        self.asked: list[str] = []

    async def look_up(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answers = self.answers[host]
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        if not found:
            raise socket.gaierror(socket.EAI_AGAIN, "not now")
        return found


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    names = Names()
    monkeypatch.setattr("pillarbox.outbound.pipe.Client", partial(Client, lookup=names.look_up))
    return names


@pytest.fixture
def sink() -> Iterator[ProviderServer]:
    with provider_server() as sink:
        yield sink


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with provider_server() as server:
        yield server


def hook(url: str) -> Webhook:
    return Webhook(url=url, body={"a": 1})


def mail_with(url: str) -> Email:
    attachment = NewAttachment(filename="report.txt", url=url)
    return Email(to="someone@example.com", text="see the file", attachments=[attachment])


def port_of(sink: ProviderServer) -> str:
    return sink.origin.rpartition(":")[2]


async def sent(box: Pillarbox, messages: Sequence[Message]) -> list[OutboundMessage]:
    ids = [await box.outbound.send(TENANT, message) for message in messages]
    await drained(box)
    return [await box.outbound.get(message_id) for message_id in ids]


def blocked(message: OutboundMessage, attempts: int = 1) -> bool:
    """Failed at once, by our own judgement: no answer of anybody's."""
    last = message.attempts[-1]
    assert "example" not in str(message.error_message)
    return (message.status, message.attempt_count, last.outcome, last.status_code, len(message.attempts)) == (
        "failed",
        attempts,
        "rejected",
        None,
        attempts,
    )


def test_every_forbidden_url_is_a_422_that_names_the_field_over_http(sqlite_url: str, sink: ProviderServer) -> None:
    urls = [url.replace(":PORT", f":{port_of(sink)}") for url in FORBIDDEN_URLS]
    with Daemon(sqlite_url) as daemon:
        sandbox = {"email": {"provider": "sandbox"}}
        assert daemon.call("PUT", f"/v1/tenants/{TENANT}", {"providers": sandbox})[0] == 201
        path = f"/v1/tenants/{TENANT}/messages"
        found = {}
        for url in urls:
            file = {"filename": "a.txt", "url": url}
            as_hook = daemon.call("POST", path, {"channel": "webhook", "to": url, "body": {}})
            as_file = daemon.call(
                "POST", path, {"channel": "email", "to": "a@example.com", "text": "x", "attachments": [file]}
            )
            found[url] = [
                (status, [each["field"] for each in answer["errors"]]) for status, answer in (as_hook, as_file)
            ]
        assert daemon.call("GET", path)[1]["items"] == []
    assert {
        url: fields for url, fields in found.items() if fields != [(422, ["to"]), (422, ["attachments.0.url"])]
    } == {}
    assert sink.connections == 0


@pytest.mark.parametrize("shape", [hook, mail_with])
async def test_a_name_that_leads_to_a_forbidden_address_is_failed_at_once_and_reaches_nobody(
    sqlite_url: str, server: ProviderServer, sink: ProviderServer, names: Names, shape: Callable[[str], Message]
) -> None:
    answers = [[address] for address in FORBIDDEN_ADDRESSES]
    answers += [[PUBLIC, "127.0.0.1"], ["127.0.0.1", PUBLIC], [PUBLIC, "::1"], [PUBLIC, PUBLIC, "::ffff:127.0.0.1"]]
    names.answers = {f"h{n}.example": [answer] for n, answer in enumerate(answers)}
    async with sending_box(sqlite_url, server) as box:
        urls = [f"https://{name}:{port_of(sink)}/hook" for name in names.answers]
        found = await sent(box, [shape(url) for url in urls])
    assert [answers[n] for n, message in enumerate(found) if not blocked(message)] == []
    assert names.asked == list(names.answers), "each name is asked for once: nothing can change in between"
    assert sink.connections == 0
    assert server.calls == []


async def test_the_machines_own_name_is_judged_by_what_it_leads_to(
    sqlite_url: str, server: ProviderServer, sink: ProviderServer
) -> None:
    async with sending_box(sqlite_url, server) as box:
        places = [f"https://localhost:{port_of(sink)}/x", f"https://LOCALHOST:{port_of(sink)}/x"]
        found = await sent(box, [shape(place) for place in places for shape in (hook, mail_with)])
    assert all(map(blocked, found))
    assert sink.connections == 0


@pytest.mark.parametrize("shape", [hook, mail_with])
async def test_a_name_that_changes_between_attempts_is_judged_again(
    database_url: str, server: ProviderServer, sink: ProviderServer, names: Names, shape: Callable[[str], Message]
) -> None:
    names.answers = {"shifty.example": [[], [], ["127.0.0.1"]]}
    async with sending_box(database_url, server, backoff_base_seconds=0.01) as box:
        url = f"https://shifty.example:{port_of(sink)}/hook"
        message = await until_ended(box, await box.outbound.send(TENANT, shape(url)))
    assert [attempt.outcome for attempt in message.attempts] == ["transient", "transient", "rejected"]
    assert blocked(message, attempts=3)
    assert sink.connections == 0
    assert server.calls == []


@pytest.mark.parametrize("shape", [hook, mail_with])
async def test_a_trusted_name_works_until_it_leads_to_where_no_trust_reaches(
    sqlite_url: str, server: ProviderServer, sink: ProviderServer, names: Names, shape: Callable[[str], Message]
) -> None:
    sink.arrange = lambda call: Answer(503)
    origins = [f"http://partner{n}.example:{port_of(sink)}" for n in range(len(LINK_LOCAL))]
    prompt: dict[str, Any] = {"trusted": origins, "backoff_base_seconds": 0.01}
    names.answers = {f"partner{n}.example": [["127.0.0.1"]] for n in range(len(LINK_LOCAL))}
    async with sending_box(sqlite_url, server, **prompt) as box:
        ids = [await box.outbound.send(TENANT, shape(f"{origin}/hook")) for origin in origins]
        await box.outbound.drain.step()
        assert len(sink.calls) == len(origins)
    names.answers = {f"partner{n}.example": [[address]] for n, address in enumerate(LINK_LOCAL)}
    # Opened anew, since addresses that were judged are remembered for a while.
    async with sending_box(sqlite_url, server, **prompt) as box:
        found = [await until_ended(box, message_id) for message_id in ids]
    assert [LINK_LOCAL[n] for n, message in enumerate(found) if not blocked(message, attempts=2)] == []
    assert len(sink.calls) == len(origins)
    assert server.calls == []


@pytest.mark.parametrize("shape", [hook, mail_with])
async def test_trust_that_was_withdrawn_holds_no_more_at_the_next_attempt(
    sqlite_url: str, server: ProviderServer, sink: ProviderServer, shape: Callable[[str], Message]
) -> None:
    sink.arrange = lambda call: Answer(503)
    async with sending_box(sqlite_url, server, trusted=[sink.origin], backoff_base_seconds=0.01) as box:
        [message] = await sent(box, [shape(f"{sink.origin}/hook")])
        assert message.status == "retrying"
        calls = len(sink.calls)
        await put_tenant(box)
        message = await until_ended(box, message.message_id)
        assert (message.status, message.attempts[-1].outcome) == ("failed", "rejected")
        assert len(sink.calls) == calls
        with pytest.raises(InvalidInput, match="https"):
            await box.outbound.send(TENANT, shape(f"{sink.origin}/hook"))


async def test_no_redirect_leads_anywhere_for_webhooks_and_attachments(
    sqlite_url: str, server: ProviderServer, sink: ProviderServer
) -> None:
    with provider_server() as elsewhere:
        places = [f"{elsewhere.origin}/x", "http://169.254.169.254/latest/meta-data", "file:///etc/passwd"]
        sink.arrange = lambda call: Answer(302, {"Location": places[int(call.label)]})
        async with sending_box(sqlite_url, server, trusted=[sink.origin, elsewhere.origin]) as box:
            urls = [f"{sink.origin}/{n}" for n in range(len(places))]
            found = await sent(box, [shape(url) for url in urls for shape in (hook, mail_with)])
        assert {(message.status, message.attempt_count) for message in found} == {("failed", 1)}
        assert elsewhere.connections == 0
    assert server.calls == []


async def test_trust_is_for_one_origin_exactly(sqlite_url: str, server: ProviderServer, sink: ProviderServer) -> None:
    async with sending_box(sqlite_url, server) as box:
        for url in (f"{sink.origin}/", server.origin.replace("http:", "https:"), server.origin.replace("127", "127.0")):
            with pytest.raises(InvalidInput):
                await box.outbound.send(TENANT, hook(url))
        await box.tenants.put("other", NewTenant(providers=PROVIDERS))
        with pytest.raises(InvalidInput):
            await box.outbound.send("other", hook(f"{server.origin}/hook"))
    assert sink.connections == server.connections == 0


@pytest.mark.parametrize("whose", ["tenant", "operator"])
async def test_a_trusted_destination_and_attachment_work(
    sqlite_url: str, server: ProviderServer, sink: ProviderServer, whose: str
) -> None:
    sink.arrange = lambda call: (
        Answer(200, {"Content-Type": "text/plain"}, b"the file") if call.method == "GET" else None
    )
    by_tenant = [sink.origin] if whose == "tenant" else []
    by_operator = {"trusted_destinations": [sink.origin]} if whose == "operator" else {}
    async with sending_box(sqlite_url, server, trusted=by_tenant, **by_operator) as box:
        posted, mailed = await sent(box, [hook(f"{sink.origin}/a%2Fb?x=%20+y"), mail_with(f"{sink.origin}/file")])
    assert (posted.status, mailed.status) == ("delivered", "sent")
    assert {(call.method, call.target) for call in sink.calls} == {("POST", "/a%2Fb?x=%20+y"), ("GET", "/file")}
    [mail] = server.calls
    [attachment] = mail.json["attachments"]
    assert (attachment["filename"], b64decode(attachment["content"])) == ("report.txt", b"the file")


async def test_no_proxy_of_the_environment_is_used(
    sqlite_url: str, server: ProviderServer, sink: ProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, sink.origin)
        monkeypatch.setenv(name.lower(), sink.origin)
    async with sending_box(sqlite_url, server) as box:
        posted, mailed = await sent(box, [hook(f"{server.origin}/hook"), Email(to="someone@example.com", text="hello")])
    assert (posted.status, mailed.status) == ("delivered", "sent")
    assert sink.connections == 0


BODIES: list[object] = [
    {"type": "order.paid", "text": "Zoë 😀 </script> \u2028"},
    [1, 2.5, None, True, {"deep": [[["x"]]]}],
    "only text",
    {"": "", "big": 2**53, "spaces": "  a\tb\n"},
    {},
]


async def test_signatures_verify_over_the_exact_bytes_on_every_attempt(
    database_url: str, server: ProviderServer
) -> None:
    server.arrange = lambda call: Answer(503) if len(server.of(str(call.message_id))) == 1 else None
    async with sending_box(database_url, server, backoff_base_seconds=1.1) as box:
        ids = [await box.outbound.send(TENANT, Webhook(url=f"{server.origin}/hook", body=body)) for body in BODIES]
        for message_id in ids:
            assert (await until_ended(box, message_id)).attempt_count == 2
    for message_id, body in zip(ids, BODIES, strict=True):
        first, second = server.of(message_id)
        assert Verifier(SIGNING_SECRET).verify(first.body, dict(first.headers)) == json.loads(first.body) == body
        assert Verifier(SIGNING_SECRET).verify(second.body, dict(second.headers)) == body
        assert first.headers["webhook-id"] == second.headers["webhook-id"] == message_id
        assert int(first.headers["webhook-timestamp"]) < int(second.headers["webhook-timestamp"])
        assert first.headers["webhook-signature"] != second.headers["webhook-signature"]
        assert first.body == second.body
        with pytest.raises(Exception, match="No matching signature"):
            Verifier(SIGNING_SECRET).verify(first.body + b" ", dict(first.headers))


async def test_both_secrets_verify_while_one_replaces_the_other(
    sqlite_url: str, server: ProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    older, other = ("whsec_" + b64encode(word * 8).decode() for word in (b"older", b"other"))
    monkeypatch.setenv("E2E_OLDER_SECRET", older)
    rotating = {"signing_secret": "env:E2E_SIGNING_SECRET", "previous_signing_secret": "env:E2E_OLDER_SECRET"}
    async with sending_box(sqlite_url, server) as box:
        settings = TenantSettings(trusted_destinations=(server.origin,))
        webhook = {"provider": "webhook", "credentials": rotating}
        await box.tenants.put(TENANT, NewTenant(providers={"webhook": webhook}, settings=settings))
        await sent(box, [hook(f"{server.origin}/hook")])
        await box.tenants.put(TENANT, NewTenant(settings=settings))
        await sent(box, [hook(f"{server.origin}/unsigned")])
    signed, unsigned = server.calls
    for secret in (SIGNING_SECRET, older):
        assert Verifier(secret).verify(signed.body, dict(signed.headers)) == {"a": 1}
    with pytest.raises(Exception, match="No matching signature"):
        Verifier(other).verify(signed.body, dict(signed.headers))
    assert "webhook-signature" not in unsigned.headers
    assert unsigned.message_id is not None
