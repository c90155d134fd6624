"""What needs an operator is judged by when it went wrong, and counted as far as was looked."""

from datetime import timedelta

import pytest

from pillarbox import Email
from pillarbox.box import Pillarbox
from pillarbox.operators import attention
from pillarbox.operators import failing as failing_providers
from pillarbox.operators.attention import AttentionItem
from pillarbox.storage.ids import earliest_id
from tests.operators.filled import drain, send, sql


async def items(box: Pillarbox, kind: str) -> list[AttentionItem]:
    return [item for item in (await box.attention()).items if item.kind == kind]


async def test_what_was_queued_long_ago_and_failed_now_needs_somebody(box: Pillarbox) -> None:
    sent = await send(
        box, Email(to="fail@example.com", subject="s", text="t"), Email(to="flaky@example.com", subject="s", text="t")
    )
    await drain(box)
    long_ago = box.database.clock.now() - timedelta(days=9)
    old = {message_id: f"{earliest_id(long_ago)[:-1]}{at}" for at, message_id in enumerate(sent)}
    for message_id, old_id in old.items():
        for table in ("message_history", "message_queue"):
            await sql(box, f"UPDATE {table} SET message_id = :old WHERE message_id = :id", old=old_id, id=message_id)
    await sql(box, "UPDATE message_history SET created_at = :at", at=long_ago)
    (failed,) = await items(box, "failed-message")
    (failing,) = await items(box, "failing-provider")
    assert (failed.id, failed.age_seconds < 600) == (old[sent[0]], True)
    assert (failing.tenant_id, failing.count, failing.exact, failing.age_seconds < 600) == ("acme", 2, True, True)


async def test_what_failed_long_ago_needs_nobody_however_young_the_message_is(box: Pillarbox) -> None:
    await send(box, Email(to="fail@example.com", subject="s", text="t"))
    await send(box, Email(to="flaky@example.com", subject="s", text="t"), tenant="rival")
    await drain(box)
    before = box.database.clock.now() - timedelta(hours=2)
    await sql(box, "UPDATE message_history SET failed_at = :at WHERE status = 'failed'", at=before)
    await sql(box, "UPDATE message_queue SET tried_at = :at", at=before)
    assert await items(box, "failing-provider") == []
    assert len(await items(box, "failed-message")) == 1
    await sql(box, "UPDATE message_history SET failed_at = :at", at=before - timedelta(days=1))
    assert await items(box, "failed-message") == []


async def test_many_that_fail_now_do_not_hide_the_one_that_fails_for_long(
    box: Pillarbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "_LOOKED_AT", 3)

    @box.inbound.target("away")
    async def away(message: object) -> None:
        raise RuntimeError("the agent is away")

    now = box.database.clock.now()
    for name in ("a", "b", "c", "d", "z"):
        await box.sessions.open(session_id=name, target={"kind": "python", "name": "away"})
        await box.inbound.enqueue(session_id=name, origin="chat", content="x")
    await drain(box)
    found = await box.attention()
    assert [item.kind for item in found.items] == [], "it may be a hiccup"
    assert found.counts["stuck-session"].exact
    await sql(box, "UPDATE inbound_strand SET failing_since = :at WHERE session_id = 'z'", at=now - timedelta(hours=1))
    found = await box.attention()
    assert [item.session_id for item in found.items] == ["z"]
    assert (found.counts["stuck-session"].matching, found.counts["stuck-session"].exact) == (1, True)
    await sql(
        box, "UPDATE inbound_strand SET failing_since = :at WHERE session_id <> 'z'", at=now - timedelta(minutes=5)
    )
    found = await box.attention()
    assert found.items[0].session_id == "z"
    count = found.counts["stuck-session"]
    assert (count.matching, count.exact) == (3, False), "five are stuck: at least three"


async def test_a_session_is_no_longer_stuck_once_its_head_is_through(box: Pillarbox) -> None:
    answers = iter([RuntimeError("not yet"), RuntimeError("not yet"), None])

    @box.inbound.target("late")
    async def late(message: object) -> None:
        if (error := next(answers)) is not None:
            raise error

    await box.sessions.open(session_id="s", target={"kind": "python", "name": "late"})
    await box.inbound.enqueue(session_id="s", origin="chat", content="x")
    seen = []
    for _ in range(3):
        await drain(box)
        seen.append((await sql(box, "SELECT failing, failing_since FROM inbound_strand"))[0])
        await box.inbound.retry(1) if len(seen) < 3 else None
    (first, since), (second, still), (last, ended) = seen
    assert (first, second, last) == (1, 1, 0)
    assert (since is not None, still, ended) == (True, since, None)


async def test_a_session_whose_head_a_node_of_an_older_version_brought_through_is_not_stuck(box: Pillarbox) -> None:
    long_ago = box.database.clock.now() - timedelta(hours=1)
    await box.sessions.open(session_id="s", target={"kind": "none"})
    await box.inbound.enqueue(session_id="s", origin="chat", content="x")
    await box.hooks.post("s", "agent_stop")
    for table in ("inbound_strand", "hook_strand"):
        await sql(box, f"UPDATE {table} SET failing = 0, failing_since = :at", at=long_ago)
    assert not (await box.attention()).items
    for table in ("inbound_strand", "hook_strand"):
        await sql(box, f"UPDATE {table} SET failing = 1")
    assert {item.kind for item in (await box.attention()).items} == {"stuck-session", "stuck-events"}


async def test_a_failing_provider_is_counted_at_least(box: Pillarbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "_LOOKED_AT", 2)
    await send(box, *(Email(to=f"{how}@example.com", subject="s", text="t") for how in ("fail", "flaky") * 3))
    await drain(box)
    (failing,) = await items(box, "failing-provider")
    counts = (await box.attention()).counts
    assert (failing.count, failing.exact) == (4, False)
    assert (counts["failed-message"].matching, counts["failed-message"].exact) == (2, False)


async def test_a_provider_that_took_something_since_needs_nobody(box: Pillarbox) -> None:
    await send(box, *(Email(to=f"{at}+flaky@example.com", subject="s", text="t") for at in range(3)))
    await drain(box)
    (failing,) = await items(box, "failing-provider")
    assert (failing.count, "what waits is tried again by itself" in failing.action) == (3, True)
    await send(box, Email(to="ann@example.com", subject="s", text="t"), tenant="rival")
    await drain(box)
    assert len(await items(box, "failing-provider")) == 1, "it took another tenant's message"
    await send(box, Email(to="ann@example.com", subject="s", text="t"))
    await drain(box)
    assert await items(box, "failing-provider") == []


async def test_a_refusal_is_about_its_message_and_several_are_about_the_provider(box: Pillarbox) -> None:
    await send(box, Email(to="fail@example.com", subject="Your invoice", text="t"))
    await drain(box)
    (failed,) = await items(box, "failed-message")
    assert (failed.channel, failed.summary) == ("email", "Your invoice")
    assert await items(box, "failing-provider") == []
    await send(box, *(Email(to="fail@example.com", subject="Your reminder", text="t") for _ in range(2)))
    await drain(box)
    (failing,) = await items(box, "failing-provider")
    assert failing.count == 3
    assert failing.action.endswith("then retry what failed."), "nothing waits"


async def test_where_more_tenants_fail_than_are_asked_there_are_at_least_so_many(
    box: Pillarbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failing_providers, "_TENANTS_ASKED", 1)
    await send(box, *(Email(to="flaky@example.com", subject="s", text="t") for _ in range(2)))
    await send(box, Email(to="flaky@example.com", subject="s", text="t"), tenant="rival")
    await drain(box)
    (failing,) = await items(box, "failing-provider")
    count = (await box.attention()).counts["failing-provider"]
    assert (failing.tenant_id, count.matching, count.exact) == ("acme", 1, False)
