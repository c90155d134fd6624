"""Every way in which an operator can change something leaves one note of who did it."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from pillarbox.api.routes import ENDPOINTS
from pillarbox.audit import Audit, acting_as
from pillarbox.box import Pillarbox
from pillarbox.errors import OptedOut
from pillarbox.filters import parse_filter
from pillarbox.outbound.messages import Email
from pillarbox.outbound.tenants import fingerprint
from tests.api.client import Client, Reply
from tests.dashboard.signed_in import Browser, cookie_of, sign_in
from tests.operators.filled import sql

SANDBOX = {"provider": "sandbox"}
NO_OPERATORS = {
    *(("POST", path) for path in ("/v1/inbound", "/v1/hooks", "/v1/tenants/{tenant}/messages", "/u/{token}")),
    *(("POST", f"/v1/inbox/{verb}") for verb in ("try-begin", "extend", "mark-processed", "release")),
    *(("POST", f"/adapters/{name}") for name in ("whatsapp", "telegram", "slack", "webhook/{name}")),
}
"""What programs, agents and people send; operators do nothing by it."""


@dataclass(frozen=True)
class World:
    """A box, an operator with a key and one with a browser, and things for them to act on."""

    box: Pillarbox
    key: Client
    browser: Browser
    numbers: "count[int]"

    async def email(self, to: str = "ann@example.com", *, drained: bool = False) -> str:
        message_id = await self.box.outbound.send("acme", Email(to=to, subject="s", text="t"))
        if drained:
            await self.box.outbound.drain.step()
        return message_id

    async def session(self) -> str:
        name = f"s{next(self.numbers)}"
        await self.box.sessions.open(session_id=name, target={"kind": "python", "name": "away"})
        return name

    async def inbound(self) -> int:
        return (await self.box.inbound.enqueue(session_id=await self.session(), origin="chat", content="x")).id

    async def dead_event(self) -> int:
        await self.box.hooks.post(await self.session(), "broken")
        ((event_id,),) = await sql(self.box, "SELECT max(id) FROM hook_outbox")
        await sql(self.box, "UPDATE hook_outbox SET status = 'dead' WHERE id = :id", id=event_id)
        return int(event_id)

    async def operation(self) -> str:
        return (await self.box.operations.start("retry", parse_filter("tenant:acme id:none"))).operation_id

    async def opt_out(self) -> str:
        return (await self.box.outbound.opt_out("acme", f"x{next(self.numbers)}@example.com"))[0].id

    async def tenant(self) -> str:
        name = f"t{next(self.numbers)}"
        await self.box.tenants.set(name, providers={})
        return name

    async def document(self, tenant: str) -> dict[str, str]:
        seen = fingerprint(await self.box.tenants.get(tenant))
        return {"document": json.dumps({"providers": {}, "settings": {}}), "seen": seen}


Ready = Callable[[], Awaitable[Reply]]
Step = Callable[[World], Awaitable[Ready]]


def asking(method: str, body: Any, path: Callable[[World], Awaitable[str]]) -> Step:
    """A call with the operator's key, made ready without anybody acting."""

    async def ready(world: World) -> Ready:
        target = await path(world)
        return lambda: world.key.request(method, target, body)

    return ready


def filling(path: Callable[[World], Awaitable[str]], **fields: str) -> Step:
    """A form of the operator's browser."""

    async def ready(world: World) -> Ready:
        target = await path(world)
        return lambda: world.browser.post(target, **fields)

    return ready


async def _changing_a_tenant(world: World) -> Ready:
    tenant = await world.tenant()
    fields = await world.document(tenant)
    return lambda: world.browser.post(f"/tenants/{tenant}", **fields)


async def _signing_in(world: World) -> Ready:
    return lambda: sign_in(world.key.with_key(None))


async def _signing_out(world: World) -> Ready:
    other = Browser(world.browser.client, cookie_of(await sign_in(world.key.with_key(None))))
    token = await other.token()
    return lambda: other.post("/logout", form_token=token)


def at(text: str, *made: Callable[[World], Awaitable[object]]) -> Callable[[World], Awaitable[str]]:
    async def path(world: World) -> str:
        return text.format(*[await each(world) for each in made])

    return path


async def failed(world: World) -> str:
    return await world.email("fail@example.com", drained=True)


async def key_id(world: World) -> str:
    return (await world.box.keys.create(tenant="acme")).key_id


ACME = "/v1/tenants/acme"
TENANT = "/v1/tenants/{tenant}"
STEPS: dict[tuple[str, str], tuple[str, str | None, Step]] = {
    ("POST", "/v1/inbound/{id}/retry"): ("retry", None, asking("POST", {}, at("/v1/inbound/{}/retry", World.inbound))),
    ("POST", "/v1/inbound/{id}/expire"): (
        "expire",
        None,
        asking("POST", {}, at("/v1/inbound/{}/expire", World.inbound)),
    ),
    ("POST", "/v1/sessions"): (
        "open",
        None,
        asking("POST", {"target": {"kind": "python", "name": "x"}}, at("/v1/sessions")),
    ),
    ("PATCH", "/v1/sessions/{session_id}"): (
        *("change", None),
        asking("PATCH", {"title": "new"}, at("/v1/sessions/{}", World.session)),
    ),
    ("POST", "/v1/sessions/{session_id}/close"): (
        *("close", None),
        asking("POST", {}, at("/v1/sessions/{}/close", World.session)),
    ),
    ("POST", "/v1/hooks/{id}/retry"): ("retry", None, asking("POST", {}, at("/v1/hooks/{}/retry", World.dead_event))),
    ("POST", "/v1/keys"): ("key.create", "acme", asking("POST", {"tenant": "acme"}, at("/v1/keys"))),
    ("DELETE", "/v1/keys/{key_id}"): ("key.revoke", "acme", asking("DELETE", None, at("/v1/keys/{}", key_id))),
    ("POST", "/v1/messages/actions"): (
        *("retry.all", "acme"),
        asking("POST", {"action": "retry", "filter": "tenant:acme id:none"}, at("/v1/messages/actions")),
    ),
    ("POST", "/v1/operations/{operation_id}/stop"): (
        *("stop", "acme"),
        asking("POST", {}, at("/v1/operations/{}/stop", World.operation)),
    ),
    ("POST", "/v1/sandbox"): (
        "sandbox.arrange",
        None,
        asking("POST", {"trouble": "fail", "channel": "sms"}, at("/v1/sandbox")),
    ),
    ("DELETE", "/v1/sandbox"): ("sandbox.clear", None, asking("DELETE", None, at("/v1/sandbox"))),
    ("POST", f"{TENANT}/embed-links"): ("embed.make", "acme", asking("POST", {}, at(f"{ACME}/embed-links"))),
    ("DELETE", f"{TENANT}/embed-links"): ("embed.revoke", "acme", asking("DELETE", None, at(f"{ACME}/embed-links"))),
    ("PUT", TENANT): ("tenant.put", "new", asking("PUT", {}, at("/v1/tenants/new"))),
    ("DELETE", TENANT): ("tenant.delete", "new", asking("DELETE", None, at("/v1/tenants/new"))),
    ("POST", f"{TENANT}/messages/{{message_id}}/cancel"): (
        *("cancel", "acme"),
        asking("POST", {}, at(f"{ACME}/messages/{{}}/cancel", World.email)),
    ),
    ("POST", f"{TENANT}/messages/{{message_id}}/retry"): (
        *("retry", "acme"),
        asking("POST", {}, at(f"{ACME}/messages/{{}}/retry", failed)),
    ),
    ("POST", f"{TENANT}/opt-outs"): (
        *("opt-out.add", "acme"),
        asking("POST", {"contact": "bob@example.com"}, at(f"{ACME}/opt-outs")),
    ),
    ("DELETE", f"{TENANT}/opt-outs/{{opt_out_id}}"): (
        *("opt-out.remove", "acme"),
        asking("DELETE", None, at(f"{ACME}/opt-outs/{{}}", World.opt_out)),
    ),
    ("POST", f"{TENANT}/forget"): (
        *("forget", "acme"),
        asking("POST", {"contact": "gone@example.com"}, at(f"{ACME}/forget", World.email)),
    ),
    ("POST", "/login"): ("sign-in", None, _signing_in),
    ("POST", "/logout"): ("sign-out", None, _signing_out),
    ("POST", "/actions"): (
        "cancel.all",
        "acme",
        filling(at("/actions"), action="cancel", filter="tenant:acme id:none"),
    ),
    ("POST", "/actions/{operation_id}/stop"): ("stop", "acme", filling(at("/actions/{}/stop", World.operation))),
    ("POST", "/messages/{message_id}/retry"): ("retry", "acme", filling(at("/messages/{}/retry", failed))),
    ("POST", "/messages/{message_id}/cancel"): ("cancel", "acme", filling(at("/messages/{}/cancel", World.email))),
    ("POST", "/messages/{message_id}/resend"): (
        *("resend", "acme"),
        filling(at("/messages/{}/resend", World.email), subject="again", once="a key of its own"),
    ),
    ("POST", "/inbound/{id}/retry"): ("retry", None, filling(at("/inbound/{}/retry", World.inbound))),
    ("POST", "/inbound/{id}/expire"): ("expire", None, filling(at("/inbound/{}/expire", World.inbound))),
    ("POST", "/sessions/{session_id}/close"): ("close", None, filling(at("/sessions/{}/close", World.session))),
    ("POST", "/hooks/{id}/retry"): ("retry", None, filling(at("/hooks/{}/retry", World.dead_event))),
    ("POST", "/tenants"): ("tenant.put", "made", filling(at("/tenants"), tenant="made")),
    ("POST", "/tenants/{tenant}"): ("tenant.put", "", _changing_a_tenant),
    ("POST", "/tenants/{tenant}/opt-outs"): (
        *("opt-out.add", "acme"),
        filling(at("/tenants/acme/opt-outs"), contact="cy@example.com", channel="email"),
    ),
    ("POST", "/tenants/{tenant}/opt-outs/{opt_out_id}/remove"): (
        *("opt-out.remove", "acme"),
        filling(at("/tenants/acme/opt-outs/{}/remove", World.opt_out)),
    ),
    ("POST", "/tenants/{tenant}/forget"): (
        "forget",
        "acme",
        filling(at("/tenants/acme/forget"), contact="gone@example.com"),
    ),
    ("POST", "/tenants/{tenant}/embed-links"): ("embed.make", "acme", filling(at("/tenants/acme/embed-links"))),
    ("POST", "/tenants/{tenant}/embed-links/revoke"): (
        *("embed.revoke", "acme"),
        filling(at("/tenants/acme/embed-links/revoke")),
    ),
    ("POST", "/sandbox"): ("sandbox.arrange", None, filling(at("/sandbox"), trouble="fail", channel="sms")),
    ("POST", "/sandbox/clear"): ("sandbox.clear", None, filling(at("/sandbox/clear"))),
}


def test_it_is_known_of_every_changing_call_and_form_whether_it_is_an_operators() -> None:
    changing = {(each.method, each.path) for each in ENDPOINTS if each.method != "GET"}
    assert changing == {*STEPS, *NO_OPERATORS}, "say how a new one is tried, or that no operator acts by it"


async def test_every_change_an_operator_makes_leaves_one_note(box: Pillarbox, browser: Browser) -> None:
    world = World(box, Client(browser.client.app), browser, count())
    wrong: dict[tuple[str, str], object] = {}
    for name, (action, tenant, step) in STEPS.items():
        act = await step(world)
        before = {each.id for each in await box.audit.list(limit=1000)}
        reply = await act()
        notes = [each for each in await box.audit.list(limit=1000) if each.id not in before]
        seen = [(each.action, each.tenant_id if tenant != "" else "", each.outcome) for each in notes]
        is_named = all(each.who.partition(":")[0] in ("key", "login", "admin") for each in notes)
        if reply.status >= 400 or seen != [(action, tenant, "done")] or not is_named:
            wrong[name] = (reply.status, reply.body[:200], notes)
    assert wrong == {}


async def test_a_message_is_sent_again_and_noted_together_or_not_at_all(
    box: Pillarbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    message_id = await box.outbound.send("acme", Email(to="ann@example.com", subject="s", text="t"))
    with acting_as("cli:ann"):
        for _ in range(2):
            queued = await box.outbound.resending.resend(message_id, {"subject": "new"}, idempotency_key="once")
        await box.outbound.opt_out("acme", "bob@example.com")
        with pytest.raises(OptedOut):
            await box.outbound.resending.resend(message_id, {"to": "bob@example.com"})
    notes = await Audit(box.database).list(subject=("message", message_id))
    assert [each.outcome for each in notes] == ["opted-out", "done"], "and nothing of the second time"
    assert (await box.outbound.get(queued.message_id)).subject == "new"

    def broken(*_: object) -> object:
        raise RuntimeError("the note could not be written")

    monkeypatch.setattr("pillarbox.outbound.resending.record", broken)
    before = len((await box.log.page()).items)
    with acting_as("cli:ann"), pytest.raises(RuntimeError):
        await box.outbound.resending.resend(message_id, {"subject": "never"})
    assert len((await box.log.page()).items) == before
