"""Anything that may happen to the inbound queue, in any order, on both databases, beside the model of it."""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, TypeVar

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from pillarbox.engine import Delivered, Failed, Outcome, Retry, Skipped, Strand
from pillarbox.errors import AlreadyEnded, DuplicateMismatch, SessionClosed
from pillarbox.inbound.model import Parcel
from pillarbox.sessions import SessionChange
from tests.contracts.boxes import Node, node_at, node_on
from tests.machines.inbound_model import OPEN, ModelSession

T = TypeVar("T")

SESSIONS = st.sampled_from(["a", "b", "c"])
WAITS = st.sampled_from([0.0, 5.0, 300.0])
PICK = st.integers(min_value=0, max_value=1_000_000)


class InboundMachine(RuleBasedStateMachine):
    """Two nodes on one database; whatever either was given, it may report at any later time."""

    def __init__(self, runner: asyncio.Runner, here: Node) -> None:
        super().__init__()
        self.runner = runner
        self.here = here
        self.nodes = [here, node_on(here.database, here.clock, "there")]
        self.model = {name: ModelSession() for name in "abc"}
        self.sources: list[tuple[str, str]] = []
        self.ids: dict[tuple[str, int], int] = {}
        self.given: list[tuple[Node, Strand[Parcel]]] = []
        self.changes = 0
        for name in self.model:
            self.do(here.open(name, url=f"http://{name}.example/"))

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def teardown(self) -> None:
        for table in ("inbound_queue", "inbound_strand", "sessions"):
            self.do(self.here.sql(f"DELETE FROM {table}"))
        self.do(self.nodes[1].inbound.close())

    @rule(session=SESSIONS, sourced=st.booleans())
    def enqueue(self, session: str, sourced: bool) -> None:
        model = self.model[session]
        source = f"m{len(self.sources)}" if sourced else None
        try:
            put = self.do(self.here.put(session, f"{session} {source}", source_message_id=source))
        except SessionClosed:
            assert model.closed
            return
        assert not model.closed
        row = model.enqueue(self.here.now)
        assert (put.seq, put.duplicate, put.status) == (row.seq, False, "pending")
        self.ids[session, put.seq] = put.id
        if source:
            self.sources.append((session, source))

    @precondition(lambda self: self.sources)
    @rule(pick=PICK)
    def enqueue_again(self, pick: int) -> None:
        session, source = self.sources[pick % len(self.sources)]
        put = self.do(self.nodes[1].put(session, f"{session} {source}", source_message_id=source))
        assert put.duplicate
        assert put.status == self.model[session].rows[put.seq - 1].status

    @precondition(lambda self: self.sources)
    @rule(session=SESSIONS, pick=PICK)
    def enqueue_another_under_a_used_source(self, session: str, pick: int) -> None:
        _, source = self.sources[pick % len(self.sources)]
        with pytest.raises(DuplicateMismatch):
            self.do(self.here.put(session, "something else", source_message_id=source))

    @rule(which=st.integers(0, 1))
    def claim(self, which: int) -> None:
        node = self.nodes[which]
        strands = self.do(node.claim())
        expected = {name: row for name, model in self.model.items() if (row := model.claim(node.now)) is not None}
        assert {strand.key: strand.rows[0].message.seq for strand in strands} == {k: r.seq for k, r in expected.items()}
        for strand in strands:
            assert strand.token == self.model[strand.key].token
            assert strand.rows[0].attempt_count == expected[strand.key].attempts
        self.given += [(node, strand) for strand in strands]

    @precondition(lambda self: self.given)
    @rule(pick=PICK, kind=st.sampled_from(["delivered", "delivered", "retry", "skipped", "failed"]), wait=WAITS)
    def settle(self, pick: int, kind: str, wait: float) -> None:
        node, strand = self.given[pick % len(self.given)]
        at = node.now + timedelta(seconds=wait)
        outcomes: dict[str, Outcome] = {
            "delivered": Delivered(),
            "retry": Retry("away", at),
            "skipped": Skipped("busy", at),
            "failed": Failed("gone"),
        }
        model = self.model[strand.key]
        held = model.holds(strand.token)
        assert self.do(node.settle(strand, outcomes[kind])) == held
        if held:
            model.settle(outcomes[kind], node.now)

    @precondition(lambda self: self.given)
    @rule(pick=PICK)
    def renew(self, pick: int) -> None:
        node, strand = self.given[pick % len(self.given)]
        model = self.model[strand.key]
        held = model.holds(strand.token)
        assert list(node.lane.held([strand])) == ([strand] if held else [])
        assert list(node.renew(strand)) == ([strand] if held else [])
        if held:
            model.lease_until = node.now + node.lease.length

    @rule(session=SESSIONS)
    def close(self, session: str) -> None:
        assert self.do(self.nodes[1].sessions.close(session)) == self.model[session].close(self.here.now)

    @rule(session=SESSIONS, moves=st.booleans())
    def change(self, session: str, moves: bool) -> None:
        """A new target makes the head due; a new title does not."""
        model = self.model[session]
        self.changes += 1
        target = {"kind": "http", "url": f"http://one.example/{self.changes}"}
        change = SessionChange(target=target) if moves else SessionChange(title="changed")
        try:
            self.do(self.here.sessions.change(session, change))
        except SessionClosed:
            assert model.closed
        else:
            if moves:
                model.hasten(self.here.now)

    @precondition(lambda self: self.ids)
    @rule(pick=PICK)
    def operator_expires(self, pick: int) -> None:
        (session, seq), row_id = list(self.ids.items())[pick % len(self.ids)]
        row = self.model[session].rows[seq - 1]
        if row.status in OPEN:
            self.do(self.nodes[1].inbound.expire(row_id))
            self.model[session].expire(row, self.here.now)
        else:
            with pytest.raises(AlreadyEnded):
                self.do(self.nodes[1].inbound.expire(row_id))

    @precondition(lambda self: self.ids)
    @rule(pick=PICK)
    def operator_retries(self, pick: int) -> None:
        (session, seq), row_id = list(self.ids.items())[pick % len(self.ids)]
        model = self.model[session]
        row = model.rows[seq - 1]
        if row.status in OPEN:
            self.do(self.here.inbound.retry(row_id))
            if row is model.head:
                model.hasten(self.here.now)

    @rule(seconds=st.sampled_from([0.001, 5.0, 301.0]))
    def time_passes(self, seconds: float) -> None:
        self.here.clock.advance(seconds)

    @invariant()
    def everything_is_as_the_model_says(self) -> None:
        for session, model in self.model.items():
            stored = self.do(self.here.inbound.list(session_id=session, limit=1000))
            assert [(m.seq, m.status, m.attempt_count, m.death_count, m.next_retry_at) for m in stored] == [
                (row.seq, row.status, row.attempts, row.deaths, row.next_at) for row in model.rows
            ]
            assert [m.status for m in stored].count("processing") == int(model.lease_until is not None)

    @invariant()
    def counts_and_due_times_are_as_the_model_says(self) -> None:
        heads = [model.head for model in self.model.values() if model.head]
        statuses = [row.status for model in self.model.values() for row in model.rows]
        status = self.do(self.here.inbound.status())
        assert (status.pending, status.processing, status.failed) == (
            statuses.count("pending"),
            statuses.count("processing"),
            statuses.count("failed"),
        )
        times = [model.due or model.lease_until for model in self.model.values() if model.head]
        assert len(times) == len(heads)
        assert self.do(self.here.lane.next_due(now=self.here.now)) == min(
            (time for time in times if time is not None), default=None
        )


@pytest.mark.parametrize("database_url", ["sqlite", "postgres"], indirect=True)
def test_whatever_happens_the_queue_is_as_the_model_says(database_url: str) -> None:
    url = "sqlite:///:memory:" if database_url.startswith("sqlite") else database_url
    examples = 60 if url.startswith("sqlite") else 25
    with asyncio.Runner() as runner:
        opening = node_at(url)
        here = runner.run(opening.__aenter__())
        try:
            run_state_machine_as_test(
                lambda: InboundMachine(runner, here),  # type: ignore[arg-type]
                settings=settings(
                    max_examples=examples,
                    stateful_step_count=40,
                    deadline=None,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            runner.run(opening.__aexit__(None, None, None))
