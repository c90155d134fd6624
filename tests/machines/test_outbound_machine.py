"""Anything that may happen to outbound messages, in any order, on both databases, beside the model of it."""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, TypeVar

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from pillarbox.engine import Outcome, Skipped, Strand
from pillarbox.errors import NotCancelable, NotRetryable, OptedOut
from pillarbox.outbound.attempt import Parcel
from tests.contracts.outbound_boxes import (
    TABLES,
    OutboundNode,
    accepted,
    outbound_node_at,
    outbound_node_on,
    rejected,
    transient,
    unknown,
)
from tests.machines.outbound_model import RETRYABLE, WAITING, Model, ModelMessage

T = TypeVar("T")

TENANTS = ("a", "b", "c")
TENANT = st.sampled_from(TENANTS)
CONTACT = st.sampled_from([f"user{number}@example.com" for number in range(4)])
PICK = st.integers(min_value=0, max_value=1_000_000)
NODE = st.integers(0, 1)
WAIT = st.sampled_from([0.0, 5.0, 70.0])


class OutboundMachine(RuleBasedStateMachine):
    """Two nodes on one database; whatever either was given, it may report at any later time, or never."""

    def __init__(self, runner: asyncio.Runner, here: OutboundNode) -> None:
        super().__init__()
        self.runner = runner
        self.here = here
        self.nodes = [here, outbound_node_on(here.database, here.clock, "there")]
        self.model = Model()
        self.given: list[tuple[OutboundNode, Strand[Parcel]]] = []
        self.do(here.tenant(*TENANTS))

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def teardown(self) -> None:
        for table in TABLES:
            self.do(self.here.sql(f"DELETE FROM {table}"))
        self.do(self.nodes[1].outbound.close())

    @rule(
        tenant=TENANT,
        contact=CONTACT,
        copy=st.none() | CONTACT,
        priority=st.sampled_from([0, 100, 100]),
        wait=WAIT,
        lives=st.none() | WAIT,
        most=st.integers(1, 3),
        which=NODE,
    )
    def enqueue(
        self,
        tenant: str,
        contact: str,
        copy: str | None,
        priority: int,
        wait: float,
        lives: float | None,
        most: int,
        which: int,
    ) -> None:
        node = self.nodes[which]
        due = node.later(wait)
        expires_at = None if lives is None else due + timedelta(seconds=lives + 1)
        copies = () if copy is None or copy == contact else (copy,)
        message = ModelMessage("", tenant, (contact, *copies), priority, due, expires_at, most, most)
        try:
            message.id = self.do(
                node.put(
                    tenant,
                    contact,
                    cc=copies,
                    priority=priority,
                    send_at=due,
                    expires_at=expires_at,
                    max_attempts=most,
                )
            )
            assert not self.model.refused(message)
        except OptedOut as refusal:
            assert self.model.refused(message)
            message.id = refusal.message_id or ""
            message.end("canceled", node.now)
        self.model.messages[message.id] = message

    @rule(which=NODE, slots=st.sampled_from([1, 2, 3, 64]))
    def claim(self, which: int, slots: int) -> None:
        node, now = self.nodes[which], self.here.now
        self.model.tidy(now)
        ready = self.model.ready(now)
        strands = self.do(node.claim(slots))
        taken = [strand.key for strand in strands]
        stopped = [
            message
            for messages in ready.values()
            for message in messages
            if self.model.refused(message) and self.do(self.here.status_of(message.id)) == ["canceled"]
        ]
        self.check_order(ready, taken, stopped, slots)
        for message in stopped:
            message.end("canceled", now)
        for strand in strands:
            message = self.model.messages[strand.key]
            assert not self.model.refused(message)
            message.take(strand.token, now)
            parcel = strand.rows[0]
            assert (parcel.attempt_count, parcel.last_attempt) == (message.count, message.last_attempt)
            assert (parcel.tenant_id, parcel.to_address) == (message.tenant, message.contacts[0])
        self.given += [(node, strand) for strand in strands]

    def check_order(
        self, ready: dict[str, list[ModelMessage]], taken: list[str], stopped: list[ModelMessage], slots: int
    ) -> None:
        """The most urgent of each tenant, as evenly as there is; those that must not be sent take their places."""
        used = dict.fromkeys(ready, 0)
        ended = {message.id for message in stopped}
        for tenant, messages in ready.items():
            places = [message.id in taken or message.id in ended for message in messages]
            used[tenant] = sum(places)
            assert places == sorted(places, reverse=True), "the less urgent went first"
            order = [message.id for message in messages if message.id in taken]
            assert order == [message_id for message_id in taken if message_id in order]
        assert len(taken) <= slots
        assert sum(used.values()) >= min(slots, len(ready))
        if slots == 64:
            assert used == {tenant: len(messages) for tenant, messages in ready.items()}
        most = max(used.values(), default=0)
        for tenant, messages in ready.items():
            if used[tenant] < min(len(messages), most - 1):
                raise AssertionError("one tenant had a turn too many")

    @precondition(lambda self: self.given)
    @rule(
        pick=PICK,
        how=st.sampled_from(["sent", "delivered", "reject", "again", "unknown", "last", "unsubscribed", "skip"]),
        wait=WAIT,
    )
    def settle(self, pick: int, how: str, wait: float) -> None:
        node, strand = self.given[pick % len(self.given)]
        at = node.later(wait)
        outcomes: dict[str, Outcome] = {
            "sent": accepted(),
            "delivered": accepted(delivered=True),
            "reject": rejected(),
            "again": transient(at),
            "unknown": unknown(at),
            "last": transient(at, last_chance=True),
            "unsubscribed": rejected(opt_out=True),
            "skip": Skipped("", at=node.now),
        }
        message = self.model.messages.get(strand.key)
        held = message is not None and message.holds(strand.token)
        assert self.do(node.settle(strand, outcomes[how])) == held
        if message is not None and held:
            self.settle_model(message, how, wait)

    def settle_model(self, message: ModelMessage, how: str, wait: float) -> None:
        now, at = self.here.now, self.here.later(wait)
        match how:
            case "sent" | "delivered":
                message.report("accepted", now, ending=how)
            case "reject" | "unsubscribed":
                message.report("rejected", now)
            case "again" | "unknown":
                message.report("transient" if how == "again" else "unknown", now, again=at)
            case "last":
                message.last_attempt = min(message.last_attempt, message.count + 1)
                message.report("transient", now, again=at)
            case "skip":
                message.give_back()
        if how == "unsubscribed":
            self.model.opted_out.add((message.tenant, message.contacts[0]))

    @precondition(lambda self: self.given)
    @rule(pick=PICK)
    def crash(self, pick: int) -> None:
        """Nobody reports this one any more."""
        self.given.pop(pick % len(self.given))

    @precondition(lambda self: self.given)
    @rule(pick=PICK)
    def renew(self, pick: int) -> None:
        node, strand = self.given[pick % len(self.given)]
        message = self.model.messages.get(strand.key)
        held = [strand] if message is not None and message.holds(strand.token) else []
        assert list(node.lane.held([strand])) == held
        assert list(node.lane.renew([strand], node.lease, now=node.now)) == held
        if message is not None and held:
            message.lease_until = node.now + node.lease.length

    @rule(which=NODE)
    def give_back_all(self, which: int) -> None:
        """A node gives back whatever it holds, as one does that did not hear the answer to a claim."""
        node = self.nodes[which]
        strands = self.do(node.lane.held_by(node.lease))
        for strand in strands:
            message = self.model.messages[strand.key]
            assert message.holds(strand.token)
            message.give_back()
        self.do(node.lane.release(strands, now=node.now))

    @rule(tenant=TENANT, contact=CONTACT)
    def opt_out(self, tenant: str, contact: str) -> None:
        # Old enough that nobody has to be waited for: the clock stands still.
        self.here.clock.advance(3)
        self.do(self.here.outbound.opt_out(tenant, contact, "email"))
        self.model.opted_out.add((tenant, contact))

    @precondition(lambda self: self.model.messages)
    @rule(pick=PICK)
    def cancel(self, pick: int) -> None:
        message = self.pick(pick)
        if message.waits:
            self.do(self.here.outbound.cancel(message.id))
            message.end("canceled", self.here.now)
        else:
            with pytest.raises(NotCancelable):
                self.do(self.here.outbound.cancel(message.id))

    @precondition(lambda self: any(message.status in RETRYABLE for message in self.model.messages.values()))
    @rule(pick=PICK)
    def retry(self, pick: int) -> None:
        message = self.pick(pick, *RETRYABLE)
        if self.model.refused(message):
            with pytest.raises(OptedOut):
                self.do(self.here.outbound.retry(message.id))
            return
        self.do(self.here.outbound.retry(message.id))
        message.revive(self.here.now)

    @precondition(lambda self: any(message.status not in RETRYABLE for message in self.model.messages.values()))
    @rule(pick=PICK)
    def retry_in_vain(self, pick: int) -> None:
        message = self.pick(pick, "pending", "retrying", "sent", "delivered")
        with pytest.raises(NotRetryable):
            self.do(self.here.outbound.retry(message.id))

    def pick(self, pick: int, *statuses: str) -> ModelMessage:
        some = [each for each in self.model.messages.values() if not statuses or each.status in statuses]
        return some[pick % len(some)]

    @rule(seconds=st.sampled_from([0.001, 5.0, 61.0]))
    def time_passes(self, seconds: float) -> None:
        self.here.clock.advance(seconds)

    @rule(age=st.sampled_from([0.0, 5.0, 60.0]))
    def prune(self, age: float) -> None:
        before = self.here.later(-age)
        assert self.do(self.here.lane.prune(before=before)) == self.model.prune(before)

    @invariant()
    def every_message_is_as_the_model_says(self) -> None:
        stored = self.do(self.here.outbound.list(limit=1000))
        assert {item.message_id: (item.status, item.attempt_count) for item in stored} == {
            each.id: (each.shown, each.count) for each in self.model.messages.values()
        }
        due = {item.message_id: item.next_attempt_at for item in stored}
        for each in self.model.messages.values():
            assert due[each.id] == (each.due if each.waits else None)
        rows = self.do(self.here.sql("SELECT message_id, outcome FROM message_attempt ORDER BY message_id, attempt"))
        told: dict[str, list[str]] = {each.id: [] for each in self.model.messages.values()}
        for message_id, outcome in rows:
            told[message_id].append(outcome)
        assert told == {each.id: each.attempts for each in self.model.messages.values()}

    @invariant()
    def queue_and_history_agree(self) -> None:
        self.do(self.here.check_agreement())

    @invariant()
    def what_waits_is_looked_at_in_time(self) -> None:
        messages = self.model.messages.values()
        times = [each.due for each in messages if each.waits]
        times += [each.lease_until for each in messages if each.lease_until is not None]
        times += [each.expires_at for each in messages if each.waits and each.expires_at is not None]
        due = self.do(self.here.lane.next_due(now=self.here.now))
        assert (due is None) == (not times)
        assert due is None or due <= max(min(times), self.here.now)
        assert all(each.status in WAITING for each in messages if each.sending)


@pytest.mark.parametrize("database_url", ["sqlite", "postgres"], indirect=True)
def test_whatever_happens_messages_are_as_the_model_says(database_url: str) -> None:
    url = "sqlite:///:memory:" if database_url.startswith("sqlite") else database_url
    examples = 60 if url.startswith("sqlite") else 20
    with asyncio.Runner() as runner:
        opening = outbound_node_at(url)
        here = runner.run(opening.__aenter__())
        try:
            run_state_machine_as_test(
                lambda: OutboundMachine(runner, here),  # type: ignore[arg-type]
                settings=settings(
                    max_examples=examples,
                    stateful_step_count=40,
                    deadline=None,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            runner.run(opening.__aexit__(None, None, None))
