"""The inbox against its model, in any order of steps, in memory and on both databases."""

import asyncio
import os
import uuid
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from pillarbox.box import open_database
from pillarbox.inbox import InboxStore, MemoryInbox, SqlInbox
from pillarbox.settings import Settings
from pillarbox.storage.migrate import migrate
from pillarbox.testing import ManualClock

T = TypeVar("T")

KEYS = ["a", "b%:/"]
LEASE = 60.0
EXAMPLES = int(os.environ.get("PILLARBOX_MACHINE_EXAMPLES", "60"))


@dataclass
class Key:
    """A key as the promise has it."""

    holder: str | None = None
    until: datetime | None = None
    given_up: str | None = None
    fingerprint: str | None = None
    marked: str | None = None
    result: object = None
    attempts: int = 0

    def begin(self, name: str, fingerprint: str | None, now: datetime) -> str:
        in_use = self.holder is not None or self.marked is not None
        other = in_use and None not in (fingerprint, self.fingerprint) and fingerprint != self.fingerprint
        if other:
            return "Mismatch"
        if self.holder == name and self.until is not None and self.until > now:
            return "Acquired"
        if self.marked is not None:
            return "Processed"
        if (self.until is not None and self.until > now) or name == self.given_up:
            return "Busy"
        self.fingerprint = fingerprint or (self.fingerprint if in_use else None)
        self.holder, self.until, self.given_up = name, now + timedelta(seconds=LEASE), None
        self.attempts += 1
        return "Acquired"

    def shown(self, now: datetime) -> str:
        if self.marked is not None:
            return "Processed"
        if self.until is not None and self.until > now:
            return "Leased"
        return "Free" if self.attempts else "Unknown"


class InboxMachine(RuleBasedStateMachine):
    """Two keys and everybody who wants them; leases are kept, so that late and foreign ones come back again and again."""

    runner: asyncio.Runner
    store: InboxStore
    clock: ManualClock

    leases = Bundle("leases")

    @initialize()
    def start(self) -> None:
        self.prefix = uuid.uuid4().hex
        self.model = {key: Key() for key in KEYS}

    @rule(target=leases, key=st.sampled_from(KEYS), fingerprint=st.sampled_from([None, None, "f", "g"]))
    def begin(self, key: str, fingerprint: str | None) -> str:
        name = uuid.uuid4().hex
        self.begin_as(key, name, fingerprint)
        return name

    @rule(key=st.sampled_from(KEYS), name=leases, fingerprint=st.sampled_from([None, "f"]))
    def begin_again(self, key: str, name: str, fingerprint: str | None) -> None:
        self.begin_as(key, name, fingerprint)

    def begin_as(self, key: str, name: str, fingerprint: str | None) -> None:
        model = self.model[key]
        expected = model.begin(name, fingerprint, self.clock.now())
        begun = self.run(self.store.try_begin(self.prefix + key, lease=LEASE, fingerprint=fingerprint, lease_id=name))
        assert begun.status == expected
        if expected == "Acquired":
            assert (begun.lease_id, begun.expires_at) == (name, model.until)
        assert begun.result == (model.result if expected == "Processed" else None)

    @rule(key=st.sampled_from(KEYS), name=leases)
    def extend(self, key: str, name: str) -> None:
        model, now = self.model[key], self.clock.now()
        mine = model.holder == name
        if mine:
            model.until = now + timedelta(seconds=LEASE)
        answer = self.run(self.store.extend(self.prefix + key, name, lease=LEASE))
        assert answer.status == ("Extended" if mine else "LeaseLost")
        assert answer.expires_at == (model.until if mine else None)

    @rule(key=st.sampled_from(KEYS), name=leases, result=st.sampled_from([None, 1, {"x": []}]))
    def mark(self, key: str, name: str, result: object) -> None:
        model = self.model[key]
        if model.holder == name:
            model.holder, model.until, model.marked, model.result = None, None, name, result
        answer = self.run(self.store.mark_processed(self.prefix + key, name, result=result))
        assert answer.status == ("Processed" if model.marked == name else "LeaseLost")

    @rule(key=st.sampled_from(KEYS), name=leases)
    def release(self, key: str, name: str) -> None:
        model = self.model[key]
        if model.holder == name:
            model.holder, model.until, model.given_up = None, None, name
        answer = self.run(self.store.release(self.prefix + key, name))
        assert answer.status == ("Released" if model.given_up == name else "LeaseLost")

    @rule(seconds=st.sampled_from([1.0, 59.0, 60.0, 3600.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(target=leases, keys=st.lists(st.sampled_from(KEYS), min_size=2, max_size=6), late=leases)
    def race(self, keys: list[str], late: str) -> str:
        """Many at once, the same keys among them, and somebody who extends meanwhile."""
        now, names = self.clock.now(), [uuid.uuid4().hex for _ in keys]

        async def all_at_once() -> list[Any]:
            begins = [
                self.store.try_begin(self.prefix + key, lease=LEASE, lease_id=name)
                for key, name in zip(keys, names, strict=True)
            ]
            return await asyncio.gather(*begins, self.store.extend(self.prefix + "nobody's", late, lease=LEASE))

        *answers, extended = self.run(all_at_once())
        assert extended.status == "LeaseLost"
        for key in KEYS:
            said = [
                (answer.status, name) for asked, name, answer in zip(keys, names, answers, strict=True) if asked == key
            ]
            winners = [name for status, name in said if status == "Acquired"]
            if winners:
                assert self.model[key].begin(winners[0], None, now) == "Acquired"
                assert len(winners) == 1
            for status, name in said:
                assert status == self.model[key].begin(name, None, now)
        return names[0]

    @invariant()
    def every_key_shows_its_state(self) -> None:
        now = self.clock.now()
        for key, model in self.model.items():
            seen = self.run(self.store.look(self.prefix + key))
            assert (seen.status, seen.attempts) == (model.shown(now), model.attempts)
            assert seen.lease_until == (model.until if seen.status == "Leased" else None)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def machine(request: pytest.FixtureRequest) -> Iterator[type[InboxMachine]]:
    made = ManualClock()
    with asyncio.Runner() as made_runner:
        if request.param == "memory":
            yield machine_on(MemoryInbox(made), made, made_runner)
            return
        url: str = request.getfixturevalue(f"{request.param}_url")
        database = made_runner.run(open_database(url, Settings()))
        database.clock = made  # type: ignore[misc]
        made_runner.run(migrate(database))
        yield machine_on(SqlInbox(database, retention=timedelta(days=7)), made, made_runner)
        made_runner.run(database.close())


def machine_on(made_store: InboxStore, made_clock: ManualClock, made_runner: asyncio.Runner) -> type[InboxMachine]:
    class Machine(InboxMachine):
        store = made_store
        clock = made_clock

    Machine.runner = made_runner
    return Machine


def test_every_sequence_of_steps_leaves_the_inbox_as_the_model_says(machine: type[InboxMachine]) -> None:
    case = machine.TestCase
    case.settings = settings(
        max_examples=EXAMPLES, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
    )
    case().runTest()
