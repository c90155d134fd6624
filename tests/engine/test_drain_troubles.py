"""What a drain does when the store fails, when a hold is taken away, and what it tells of that."""

import asyncio
from datetime import timedelta

import pytest

from pillarbox.engine import Backoff, Delivered, Outcome, Policy, Retry, Settlement, Strand
from pillarbox.errors import Unavailable
from pillarbox.telemetry.logs import Event
from tests.engine.scripted import Row, ScriptedLane, at_once, drain_of, running, slowly, strand
from tests.simulation.loop import LoopClock, run_virtually


def told(logs: pytest.LogCaptureFixture, name: str) -> list[dict[str, object]]:
    """The fields of every log of that name."""
    events = [record.msg for record in logs.records if isinstance(record.msg, Event)]
    return [dict(event.fields) for event in events if event.name == name]


def test_a_store_that_is_away_is_asked_again_after_ever_longer_pauses(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        lane = ScriptedLane(strand("a", 1), seconds=0)
        lane.claim_errors = [Unavailable("away")] * 8
        async with running(drain_of(lane, at_once)):
            await asyncio.sleep(20)
            assert lane.outcomes == [Delivered]
        waits = [later - earlier for earlier, later in zip(lane.turns, lane.turns[1:], strict=False)][:8]
        longest = [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
        for wait, most in zip(waits, longest, strict=True):
            assert most / 2 <= wait <= most
        fields = told(caplog, "the queue cannot be reached or refuses; trying again")
        assert [each["pause_seconds"] for each in fields] == longest
        assert {each["error"] for each in fields} == {"Unavailable: away"}

    run_virtually(main())


def test_after_a_success_the_pauses_begin_anew(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        lane = ScriptedLane(seconds=0)
        lane.claim_errors = [Unavailable("away")] * 3
        drain = drain_of(lane, at_once)
        async with running(drain):
            await asyncio.sleep(5)
            lane.claim_errors = [Unavailable("away")]
            drain._bell.ring()
            await asyncio.sleep(5)
        fields = told(caplog, "the queue cannot be reached or refuses; trying again")
        assert [each["pause_seconds"] for each in fields] == [0.05, 0.1, 0.2, 0.05]

    run_virtually(main())


def test_a_store_that_is_away_is_not_asked_for_each_outcome() -> None:
    async def main() -> None:
        lane = ScriptedLane(strand("a", 1), strand("b", 2))
        lane.turn_errors, lane.settle_errors = [Unavailable("away")], [Unavailable("away")] * 3
        async with running(drain_of(lane, at_once)):
            await asyncio.sleep(20)
            assert lane.outcomes == [Delivered, Delivered]
            assert lane.settle_calls == 4

    run_virtually(main())


def test_what_was_delivered_is_recorded_although_nothing_more_can_be_claimed() -> None:
    async def main() -> None:
        lane = ScriptedLane(strand("a", 1), strand("b", 2), seconds=0)

        async def deliver(row: Row) -> Outcome:
            lane.claim_errors = [Unavailable("a row that nobody can read")] * 1000
            return Delivered()

        async with running(drain_of(lane, deliver, concurrency=1)):
            await asyncio.sleep(5)
            assert [each.row.id for each in lane.settled] == [1]
            assert lane.claim_errors

    run_virtually(main())


def test_what_a_lost_answer_had_claimed_is_given_back_once_and_what_is_under_way_is_not() -> None:
    async def main() -> None:
        ours, orphan = strand("a", 1), strand("b", 2)
        lane = ScriptedLane(ours, seconds=0)
        drain = drain_of(lane, slowly)
        async with running(drain, grace=20):
            await asyncio.sleep(1)
            lane.held_strands = [ours, orphan]
            lane.claim_errors = [Unavailable("its answer was lost")]
            drain._bell.ring()
            await asyncio.sleep(1)
            assert lane.released == [orphan]
            drain._bell.ring()
            await asyncio.sleep(1)
            assert lane.asked_for_held == 1
        assert lane.outcomes == [Delivered]

    run_virtually(main())


def test_an_outcome_that_cannot_be_stored_is_told_by_its_id_and_its_hold_is_not_given_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        bad = strand("a", 7)
        lane = ScriptedLane(bad, seconds=0)
        lane.turn_errors = [RuntimeError("a value that cannot be stored")]
        lane.settle_errors = [RuntimeError("a value that cannot be stored")]
        lane.held_strands = [bad]
        async with running(drain_of(lane, at_once)):
            await asyncio.sleep(10)
        assert lane.released == []
        (fields,) = told(caplog, "an outcome cannot be recorded; its lease will end")
        assert fields == {"id": 7, "error": "RuntimeError: a value that cannot be stored"}

    run_virtually(main())


def test_an_outcome_that_comes_too_late_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        late = strand("a", 7)
        lane = ScriptedLane(late, seconds=0)
        lane.lost = [Settlement(late, late.rows[0], Delivered())]
        async with running(drain_of(lane, at_once)):
            await asyncio.sleep(10)
        assert lane.settled == []
        (fields,) = told(caplog, "an outcome came after its lease was lost; whoever holds it now decides")
        assert fields == {"id": 7, "token": 1, "outcome": "Delivered"}

    run_virtually(main())


def test_a_delivery_that_does_not_stop_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def stubborn(row: Row) -> Outcome:
        for _ in range(3):
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                continue
        return Delivered()

    async def main() -> None:
        async with running(drain_of(ScriptedLane(strand("a", 1)), stubborn)):
            await asyncio.sleep(2)
        (fields,) = told(caplog, "a delivery does not stop; its lease will end")
        assert fields == {"key": "a", "token": 1}

    run_virtually(main())


def test_dropping_one_row_stops_only_the_strand_that_has_it() -> None:
    async def main() -> None:
        lane = ScriptedLane(strand("a", 1), strand("b", 2))
        drain = drain_of(lane, slowly)
        async with running(drain, grace=20):
            await asyncio.sleep(2)
            drain.drop("a", row_id=99)
            drain.drop("b", row_id=2)
            await asyncio.sleep(0)
        assert [settlement.strand.key for settlement in lane.settled] == ["a"]

    run_virtually(main())


def test_a_grace_of_less_than_a_second_is_kept_too() -> None:
    async def soon(row: Row) -> Outcome:
        await asyncio.sleep(2.5)
        return Delivered()

    async def main() -> None:
        lane = ScriptedLane(strand("a", 1))
        async with running(drain_of(lane, soon), grace=0.8):
            await asyncio.sleep(3)
        assert lane.outcomes == [Delivered]

    run_virtually(main())


def test_what_falls_due_is_looked_for_when_it_is_due() -> None:
    async def main() -> None:
        lane = ScriptedLane(seconds=0)
        lane.due = LoopClock(asyncio.get_running_loop()).now() + timedelta(seconds=30)
        async with running(drain_of(lane, at_once)):
            await asyncio.sleep(29)
            assert lane.turns == [0.0]
            await asyncio.sleep(1.5)
            assert lane.turns[1] == 30

    run_virtually(main())


def test_what_was_due_and_not_to_be_had_is_looked_for_once_a_second() -> None:
    async def main() -> None:
        lane = ScriptedLane(seconds=0)
        lane.due = LoopClock(asyncio.get_running_loop()).now()
        async with running(drain_of(lane, at_once)):
            await asyncio.sleep(4.5)
        assert lane.turns[:5] == [0, 1, 2, 3, 4]

    run_virtually(main())


class _Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


def test_a_policy_of_ones_own_judges_exceptions_and_only_those() -> None:
    async def fail(row: Row) -> Outcome:
        match row.id:
            case 1:
                raise ConnectionError("refused")
            case 2:
                raise BaseExceptionGroup("odd", [asyncio.CancelledError()])
        raise _Unspeakable

    def judge(error: Exception) -> Outcome:
        assert isinstance(error, Exception)
        return Retry(f"judged: {error}")

    async def main() -> None:
        lane = ScriptedLane(*(strand(key, number) for number, key in enumerate("abc", start=1)))
        await drain_of(lane, fail, policy=Policy(Backoff((5,)), judge)).step()
        errors = {each.row.id: each.outcome.error for each in lane.settled if isinstance(each.outcome, Retry)}
        assert errors[1] == "judged: refused"
        assert not errors[2].startswith("judged")
        assert errors[3] == "_Unspeakable"

    run_virtually(main())


def test_each_delivery_is_observed_with_its_outcome_and_how_long_it_took() -> None:
    seen: list[tuple[Row, Outcome, float]] = []

    async def main() -> None:
        held = Strand("a", "there", 1, (Row(1),))
        drain = drain_of(ScriptedLane(held), slowly, observe=lambda *each: seen.append(each))
        await drain.step()
        assert seen == [(held.rows[0], Delivered(), 10.0)]

    run_virtually(main())
