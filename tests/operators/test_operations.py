"""Actions on all that match: counted first, done once each, whoever dies meanwhile."""

import asyncio

import pytest

from pillarbox import Email
from pillarbox.audit import acting_as
from pillarbox.box import Pillarbox
from pillarbox.errors import InvalidInput, NotFound
from pillarbox.filters import EVERYTHING, parse_filter
from pillarbox.operators import operations as module
from pillarbox.operators import routes
from pillarbox.operators.operations import Operations
from tests.operators.filled import drain, fill, send, sql


async def statuses(box: Pillarbox, text: str) -> list[str]:
    return [item.status for item in (await box.log.page(parse_filter(text))).items]


async def failed_ones(box: Pillarbox, count: int) -> list[str]:
    ids = await send(box, *[Email(to=f"fail{n}+fail@example.com", subject=str(n), text="t") for n in range(count)])
    await drain(box)
    assert await statuses(box, "status:failed") == ["failed"] * count
    return ids


async def ended(box: Pillarbox, operation_id: str) -> None:
    async with asyncio.timeout(20):
        while (await box.operations.get(operation_id)).state == "running":
            await box.operations.step_all()
            await asyncio.sleep(0.01)


async def test_a_dry_run_counts_and_changes_nothing(box: Pillarbox) -> None:
    await fill(box)
    before = (await box.log.page()).items
    for action, text, count in (
        ("retry", "", 6),
        ("retry", "tenant:acme status:failed", 1),
        ("retry", "pipe:inbound", 1),
        ("retry", "pipe:hooks", 2),
        ("cancel", "", 3),
        ("cancel", "status:sent", 0),
        ("expire", "session:s1", 2),
        ("expire", "pipe:outbound", 0),
    ):
        found = await box.operations.preview(action, parse_filter(text))  # type: ignore[arg-type]
        assert (found.matching, found.exact) == (count, True), (action, text)
    assert (await box.log.page()).items == before
    with pytest.raises(InvalidInput, match="action"):
        await box.operations.preview("explode", EVERYTHING)  # type: ignore[arg-type]


async def test_all_that_match_are_retried_and_nothing_else(box: Pillarbox) -> None:
    await fill(box)
    with acting_as("cli:ann"):
        begun = await box.operations.start("retry", parse_filter("tenant:acme"))
    assert (begun.state, begun.total, begun.exact, begun.who) == ("running", 2, True, "cli:ann")
    await ended(box, begun.operation_id)
    done = await box.operations.get(begun.operation_id)
    assert (done.state, done.done, done.refused, done.refusals) == ("done", 2, 0, {})
    assert await statuses(box, "tenant:acme status:failed,canceled") == []
    assert await statuses(box, "tenant:rival") == ["failed"]
    noted = await box.audit.list()
    assert sorted((act.action, act.subject_kind, act.who) for act in noted) == [
        ("retry", "message", "cli:ann"),
        ("retry", "message", "cli:ann"),
        ("retry.all", "operation", "cli:ann"),
    ]


async def test_what_waits_is_canceled_and_given_up_together(box: Pillarbox) -> None:
    await fill(box)
    for action, text in (("cancel", ""), ("expire", "")):
        begun = await box.operations.start(action, parse_filter(text))  # type: ignore[arg-type]
        await ended(box, begun.operation_id)
        done = await box.operations.get(begun.operation_id)
        assert (done.done, done.refused) == (begun.total, 0)
    assert await statuses(box, "status:pending,retrying,processing pipe:outbound,inbound") == []
    assert (await box.inbound.status()).pending == 0


async def test_a_refusal_is_counted_with_its_reason_and_stops_nobody(box: Pillarbox) -> None:
    ids = await failed_ones(box, 3)
    await box.outbound.opt_out("acme", "fail1+fail@example.com")
    begun = await box.operations.start("retry", parse_filter("status:failed"))
    await ended(box, begun.operation_id)
    done = await box.operations.get(begun.operation_id)
    assert (done.total, done.done, done.refused, done.refusals) == (3, 2, 1, {"opted-out": 1})
    assert [(await box.outbound.get(each)).status for each in ids] == ["pending", "failed", "pending"]


async def test_an_operation_goes_on_where_a_dead_process_left_it(
    box: Pillarbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_AT_ONCE", 2)
    monkeypatch.setattr(Operations, "kick", lambda self: None)
    ids = await failed_ones(box, 7)
    begun = await box.operations.start("retry", parse_filter("status:failed"))
    taken = await box.operations._take(begun.operation_id)
    assert taken is not None
    assert await box.operations._step(taken)
    halfway = await box.operations.get(begun.operation_id)
    assert (halfway.state, halfway.done) == ("running", 2)
    # Its holder is gone, and its lease over: another one takes the rest, and the old hold is worth nothing.
    await sql(box, "UPDATE operation SET lease_until = NULL")
    await ended(box, begun.operation_id)
    assert not await box.operations._step(taken)
    done = await box.operations.get(begun.operation_id)
    assert (done.state, done.done, done.refused) == ("done", 7, 0)
    for message_id in ids:
        events = [event.type for event in (await box.outbound.get(message_id)).events]
        assert events.count("retried") == 1


async def test_a_stopped_operation_does_nothing_more(box: Pillarbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Operations, "kick", lambda self: None)
    await failed_ones(box, 2)
    begun = await box.operations.start("retry", parse_filter("status:failed"))
    stopped = await box.operations.stop(begun.operation_id)
    await box.operations.step_all()
    assert (stopped.state, stopped.done) == ("stopped", 0)
    assert stopped.ended_at is not None
    assert await statuses(box, "") == ["failed", "failed"]
    assert await box.operations.stop(begun.operation_id) == stopped
    with pytest.raises(NotFound):
        await box.operations.stop("nowhere")


async def test_no_operation_keeps_an_address(box: Pillarbox) -> None:
    await send(box, Email(to="ann@example.com", subject="s", text="t"))
    begun = await box.operations.start("cancel", parse_filter("tenant:acme to:ann@example.com"))
    await ended(box, begun.operation_id)
    done = await box.operations.get(begun.operation_id)
    assert (done.total, done.done) == (1, 1)
    assert "ann" not in done.filter


async def test_what_cannot_be_carried_out_is_refused_at_once_and_holds_up_no_other(box: Pillarbox) -> None:
    await failed_ones(box, 2)
    many = ",".join(f"a{n}@b.example" for n in range(20))
    with pytest.raises(InvalidInput, match="filter"):
        await box.operations.start("retry", parse_filter(f"tenant:acme -to:{many} -to:{many}"))
    await sql(
        box,
        "INSERT INTO operation (operation_id, action, filter, state, total, exact, created_at, updated_at) "
        "VALUES ('0', 'retry', 'nonsense', 'running', 0, 1, :now, :now)",
        now=box.database.clock.now(),
    )
    sound = await box.operations.start("retry", parse_filter("status:failed"))
    await ended(box, sound.operation_id)
    assert (await box.operations.get(sound.operation_id)).done == 2


async def test_it_goes_on_beyond_the_failing_sessions_that_are_looked_at_together(
    box: Pillarbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "MOST_HEADS", 2)

    @box.inbound.target("away")
    async def away(message: object) -> None:
        raise RuntimeError("the agent is away")

    for number in range(7):
        await box.sessions.open(session_id=f"s{number}", target={"kind": "python", "name": "away"})
        for content in ("first", "second"):
            await box.inbound.enqueue(session_id=f"s{number}", origin="chat", content=content)
    await drain(box)
    for action, text, done in (
        ("retry", "", 7),
        ("retry", "session:s3", 1),
        ("retry", "origin:chat", 7),
        ("expire", "", 14),
    ):
        begun = await box.operations.start(action, parse_filter(f"pipe:inbound {text}"))  # type: ignore[arg-type]
        await ended(box, begun.operation_id)
        operation = await box.operations.get(begun.operation_id)
        assert (operation.state, operation.done, operation.refused) == ("done", done, 0), (action, text)
    assert await statuses(box, "pipe:inbound") == ["expired"] * 14
