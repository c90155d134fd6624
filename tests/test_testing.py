"""What `pillarbox.testing` gives to the tests of applications."""

import os

import pytest

from pillarbox import Email, Sms
from pillarbox.hooks.model import HookEvent
from pillarbox.testing import RecordingTarget, open_test_box


async def test_what_would_have_been_sent_is_there_to_look_at() -> None:
    async with open_test_box() as test:
        await test.box.tenants.set("acme")
        await test.box.outbound.send("acme", Email(to="ada@example.com", subject="Welcome", text="Hello."))
        assert test.sent == []
        assert await test.work() == 1
        assert [(each.to, each.subject) for each in test.sent] == [("ada@example.com", "Welcome")]


async def test_a_retry_comes_when_its_time_has_passed_and_not_before() -> None:
    async with open_test_box() as test:
        await test.box.tenants.set("acme")
        message_id = await test.box.outbound.send("acme", Sms(to="+32470123456", text="Hello."))
        test.trouble("throttle")
        await test.work()
        assert (await test.box.outbound.get(message_id)).status == "retrying"
        assert await test.pass_time(1) == 0
        assert await test.pass_time(120) == 1
        assert (await test.box.outbound.get(message_id)).status == "sent"


async def test_a_recording_target_keeps_the_order_and_fails_when_told_to() -> None:
    async with open_test_box() as test:
        agent = RecordingTarget()
        test.box.inbound.target("agent")(agent)
        session = await test.box.sessions.open(target={"kind": "python", "name": "agent"})
        for text in ("one", "two"):
            await test.box.inbound.enqueue(session_id=session.session_id, origin="test", content=text)
        agent.fail()
        await test.work()
        assert agent.contents == []
        await test.pass_time(10)
        assert agent.contents == ["one", "two"]


async def test_listeners_hear_of_events_in_the_same_work() -> None:
    async with open_test_box() as test:
        heard: list[str] = []

        @test.box.hooks.on("agent_stop")
        async def stopped(event: HookEvent) -> None:
            heard.append(event.event_type)

        session = await test.box.sessions.open(target={"kind": "python", "name": "nobody"})
        await test.box.hooks.post(session.session_id, "agent_stop", {})
        await test.work()
        assert heard == ["agent_stop"]


async def test_neither_the_environment_nor_a_file_has_a_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "PILLARBOX_OUTBOUND__MAX_ATTEMPTS", "1")
    async with open_test_box(settings={"inbound": {"concurrency": 4}}) as test:
        assert test.box.settings.outbound.max_attempts == 5
        assert test.box.settings.inbound.concurrency == 4


async def test_two_tests_share_nothing() -> None:
    async with open_test_box() as one, open_test_box() as other:
        await one.box.tenants.set("acme")
        assert await other.box.tenants.list() == []


async def test_a_box_on_postgresql_can_be_rehearsed_too(postgres_url: str) -> None:
    async with open_test_box(postgres_url) as test:
        await test.box.tenants.set("acme")
        await test.box.outbound.send("acme", Sms(to="+32470123456", text="Hello."))
        await test.work()
        assert len(test.sent) == 1
