"""Anything that may happen to the hook outbox, in any order, on both databases, beside the model of it."""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, TypeVar

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from pillarbox.engine import Delivered, Failed, Outcome, Retry, Skipped, Strand
from pillarbox.errors import AlreadyEnded
from pillarbox.hooks.model import HookRow
from pillarbox.hooks.policy import HooksPolicy
from tests.contracts.boxes import node_on
from tests.contracts.hook_boxes import HookNode, hook_node_at, hook_node_on, reports_on
from tests.machines.hook_model import CRITICAL, ModelEvent, ModelStrand

T = TypeVar("T")

SESSIONS = st.sampled_from(["a", "b", "c"])
TYPES = st.sampled_from(["user_prompt_submit", "agent_stop", "tool_use", "tool_use", "tool_done", "of tomorrow"])
WAITS = st.sampled_from([0.0, 5.0, 60.0])
PICK = st.integers(min_value=0, max_value=1_000_000)
LIMIT = 3
POLICY = HooksPolicy(strand_limit=LIMIT)


class Given:
    """A strand that a node was given, and how much of it the node has reported."""

    def __init__(self, node: HookNode, strand: Strand[HookRow]) -> None:
        self.node = node
        self.strand = strand
        self.reported = 0


class HookMachine(RuleBasedStateMachine):
    """Two nodes on one database; whatever either was given, it may report at any later time, in full or in part."""

    def __init__(self, runner: asyncio.Runner, here: HookNode) -> None:
        super().__init__()
        self.runner = runner
        self.here = here
        there = node_on(here.node.database, here.clock, "there")
        self.nodes = [here, hook_node_on(there, POLICY)]
        self.model = {name: ModelStrand() for name in "abc"}
        self.given: list[Given] = []
        for name in self.model:
            self.do(here.node.open(name))

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def teardown(self) -> None:
        for table in ("hook_outbox", "hook_strand", "agent_state", "inbound_strand", "sessions"):
            self.do(self.here.node.sql(f"DELETE FROM {table}"))
        self.do(self.nodes[1].hooks.close())
        self.do(self.nodes[1].node.inbound.close())

    @rule(session=SESSIONS, event_types=st.lists(TYPES, min_size=1, max_size=12), which=st.integers(0, 1))
    def enqueue(self, session: str, event_types: list[str], which: int) -> None:
        for event_type in event_types:
            row_id = self.do(self.nodes[which].post(session, event_type))
            self.model[session].enqueue(row_id, event_type, self.here.now)

    @rule(which=st.integers(0, 1))
    def claim(self, which: int) -> None:
        node = self.nodes[which]
        claimable = {}
        for name, model in self.model.items():
            model.rescue(node.now)
            if model.due is not None and model.due <= node.now:
                claimable[name] = model.successors()
        strands = self.do(node.claim())
        assert {strand.key for strand in strands} == claimable.keys()
        for strand in strands:
            model = self.model[strand.key]
            taken = model.claim(node.now, LIMIT)
            assert [(row.id, row.seq, row.attempt_count) for row in strand.rows] == [
                (row.id, row.seq, row.attempts) for row in taken
            ]
            assert strand.token == model.token
            self.supersede(strand.key, claimable[strand.key], last=taken[-1])
        self.given += [Given(node, strand) for strand in strands]

    def supersede(self, session: str, successors: dict[int, ModelEvent], *, last: ModelEvent) -> None:
        """All that is superseded up to the last one taken is marked; what lies behind may be marked now or later."""
        marked = {
            record.id: record.superseded_by
            for record in self.do(self.here.records(session))
            if record.status == "superseded"
        }
        for row in self.model[session].unended:
            if row.id in marked:
                assert marked[row.id] == successors[row.id].id
                row.end("superseded", self.here.now)
                row.superseded_by = marked[row.id]
            else:
                assert row.id not in successors or row.seq > last.seq

    @precondition(lambda self: self.given)
    @rule(
        pick=PICK,
        delivered=st.integers(0, LIMIT),
        then=st.sampled_from(["nothing", "retry", "skip", "release", "fail"]),
        wait=WAITS,
    )
    def settle(self, pick: int, delivered: int, then: str, wait: float) -> None:
        given = self.given[pick % len(self.given)]
        node, strand, model = given.node, given.strand, self.model[given.strand.key]
        at = node.now + timedelta(seconds=wait)
        endings: dict[str, list[Outcome]] = {
            "nothing": [],
            "retry": [Retry("away", at)],
            "skip": [Skipped("busy", at)],
            "release": [Skipped("", at)],
            "fail": [Failed("gone")],
        }
        left = len(strand.rows) - given.reported
        outcomes = [*[Delivered()] * delivered, *endings[then]][: left or None]
        reports = reports_on(strand, outcomes, skip=given.reported if left else 0)
        held = model.holds(strand.token)
        lost = self.do(node.lane.settle(reports, now=node.now))
        assert list(lost) == ([] if held else reports)
        given.reported += len(reports) if left else 0
        if held:
            model.settle(outcomes, node.now)

    @precondition(lambda self: any(given.reported for given in self.given))
    @rule(pick=PICK)
    def report_again(self, pick: int) -> None:
        """What was recorded stays as it is."""
        reported = [given for given in self.given if given.reported]
        given = reported[pick % len(reported)]
        reports = reports_on(given.strand, [Delivered()] * given.reported)
        lost = self.do(given.node.lane.settle(reports, now=given.node.now))
        assert list(lost) == ([] if self.model[given.strand.key].holds(given.strand.token) else reports)

    @precondition(lambda self: any(len(given.strand.rows) > given.reported + 1 for given in self.given))
    @rule(pick=PICK)
    def report_out_of_order(self, pick: int) -> None:
        """Nothing is recorded past a row of which nothing is known."""
        longer = [given for given in self.given if len(given.strand.rows) > given.reported + 1]
        given = longer[pick % len(longer)]
        reports = reports_on(given.strand, [Delivered()] * LIMIT, skip=given.reported + 1)
        assert list(self.do(given.node.lane.settle(reports, now=given.node.now))) == reports

    @precondition(lambda self: self.given)
    @rule(pick=PICK)
    def forget(self, pick: int) -> None:
        """A node crashes: nobody reports this strand any more."""
        self.given.pop(pick % len(self.given))

    @precondition(lambda self: self.given)
    @rule(pick=PICK)
    def renew(self, pick: int) -> None:
        given = self.given[pick % len(self.given)]
        model = self.model[given.strand.key]
        held = [given.strand] if model.holds(given.strand.token) else []
        assert list(given.node.lane.held([given.strand])) == held
        assert list(given.node.renew(given.strand)) == held
        if held:
            model.lease_until = given.node.now + given.node.lease.length

    @rule(which=st.integers(0, 1))
    def give_back_all(self, which: int) -> None:
        """A node gives back whatever it holds, as one does that did not hear the answer to a claim."""
        node = self.nodes[which]
        strands = self.do(node.lane.held_by(node.lease))
        for strand in strands:
            model = self.model[strand.key]
            assert model.holds(strand.token)
            assert [row.id for row in strand.rows] == [row.id for row in model.held]
            model.settle([Skipped("", node.now)], node.now)
        self.do(node.lane.release(strands, now=node.now))

    @precondition(lambda self: any(model.rows for model in self.model.values()))
    @rule(pick=PICK)
    def operator_retries(self, pick: int) -> None:
        rows = [(model, row) for model in self.model.values() for row in model.rows]
        model, row = rows[pick % len(rows)]
        self.retry(model, row)

    @precondition(lambda self: any(row.status == "dead" for model in self.model.values() for row in model.rows))
    @rule(pick=PICK)
    def operator_retries_a_dead_one(self, pick: int) -> None:
        rows = [(model, row) for model in self.model.values() for row in model.rows if row.status == "dead"]
        self.retry(*rows[pick % len(rows)])

    def retry(self, model: ModelStrand, row: ModelEvent) -> None:
        if row.status in ("delivered", "superseded"):
            with pytest.raises(AlreadyEnded):
                self.do(self.here.hooks.retry(row.id))
            return
        self.do(self.here.hooks.retry(row.id))
        if row.status == "dead":
            model.revive(row, self.here.now)
        else:
            model.hasten(row, self.here.now)

    @rule(seconds=st.sampled_from([0.001, 5.0, 31.0]))
    def time_passes(self, seconds: float) -> None:
        self.here.clock.advance(seconds)

    @rule(age=st.sampled_from([0.0, 5.0, 60.0]))
    def prune(self, age: float) -> None:
        before = self.here.now - timedelta(seconds=age)
        pruned = self.do(self.here.lane.prune(before=before))
        assert pruned == sum(model.prune(before) for model in self.model.values())

    @invariant()
    def every_row_is_as_the_model_says(self) -> None:
        for session, model in self.model.items():
            stored = self.do(self.here.records(session))
            assert [
                (r.id, r.seq, r.status, r.attempt_count, r.next_attempt_at, r.delivered_at, r.superseded_by)
                for r in stored
            ] == [(r.id, r.seq, r.status, r.attempts, r.next_at, r.ended_at, r.superseded_by) for r in model.rows]
            assert [r.last_error is not None for r in stored] == [r.errs for r in model.rows]

    @invariant()
    def deliveries_keep_the_order_and_nothing_critical_is_dropped(self) -> None:
        for model in self.model.values():
            assert model.told == sorted(set(model.told))
            assert not any(row.status == "superseded" and row.event_type in CRITICAL for row in model.rows)

    @invariant()
    def counters_and_due_times_are_true(self) -> None:
        self.do(self.here.check_counters())
        times = [time for model in self.model.values() if (time := model.due or model.lease_until) is not None]
        assert self.do(self.here.lane.next_due(now=self.here.now)) == min(times, default=None)


@pytest.mark.parametrize("database_url", ["sqlite", "postgres"], indirect=True)
def test_whatever_happens_the_outbox_is_as_the_model_says(database_url: str) -> None:
    url = "sqlite:///:memory:" if database_url.startswith("sqlite") else database_url
    examples = 60 if url.startswith("sqlite") else 25
    with asyncio.Runner() as runner:
        opening = hook_node_at(url, POLICY)
        here = runner.run(opening.__aenter__())
        try:
            run_state_machine_as_test(
                lambda: HookMachine(runner, here),  # type: ignore[arg-type]
                settings=settings(
                    max_examples=examples,
                    stateful_step_count=40,
                    deadline=None,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            runner.run(opening.__aexit__(None, None, None))
