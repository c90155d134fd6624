import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest

from pillarbox.engine import Lease, Strand
from pillarbox.engine import renewal as renewing
from pillarbox.engine.renewal import Renewal
from pillarbox.errors import Unavailable
from pillarbox.testing import ManualClock
from tests.threads import called

LEASE = Lease("me", timedelta(seconds=30))


@dataclass(frozen=True)
class Row:
    id: int
    attempt_count: int = 1


@dataclass(eq=False)
class Held:
    strand: Strand[Row]
    deadline: float = 1000.0
    lease_ends: float = 30.0
    lost: int = 0

    def lose(self) -> None:
        self.lost += 1


@dataclass
class Store:
    """Renews all but what was taken away."""

    asked: list[tuple[list[str], datetime]] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)
    error: Exception | None = None
    called: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def renew(self, strands: Sequence[Strand[Row]], lease: Lease, now: datetime) -> Sequence[Strand[Row]]:
        self.asked.append(([strand.key for strand in strands], now))
        self.called.release()
        if self.error:
            raise self.error
        return [strand for strand in strands if strand.key not in self.taken]

    def look(self, strands: Sequence[Strand[Row]]) -> Sequence[Strand[Row]]:
        self.called.release()
        if self.error:
            raise self.error
        return [strand for strand in strands if strand.key not in self.taken]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def renewal(store: Store, clock: ManualClock) -> Renewal[Row]:
    return Renewal(store.renew, store.look, LEASE, clock)


def held(key: str, **fields: float) -> Held:
    return Held(Strand(key, "there", 1, (Row(1),)), **fields)  # type: ignore[arg-type]


def threads() -> set[threading.Thread]:
    return called("pillarbox-renew")


def losses(*flights: Held) -> list[int]:
    return [flight.lost for flight in flights]


def test_renewal_is_due_at_a_third_of_the_lease(renewal: Renewal[Row]) -> None:
    assert renewal.interval == 10


def test_what_is_kept_holds_for_another_lease(renewal: Renewal[Row], store: Store, clock: ManualClock) -> None:
    one = held("a")
    renewal.add(one)
    clock.advance(10)
    renewal.tick()
    assert store.asked == [(["a"], clock.now())]
    assert one.lease_ends == 40
    assert not one.lost


def test_nothing_is_asked_when_nothing_is_held(renewal: Renewal[Row], store: Store) -> None:
    one = held("a")
    renewal.add(one)
    renewal.remove(one)
    renewal.tick()
    assert store.asked == []


def test_an_older_flight_of_a_key_does_not_remove_the_newer_one(renewal: Renewal[Row], store: Store) -> None:
    older, newer = held("a"), held("a")
    renewal.add(older)
    renewal.add(newer)
    renewal.remove(older)
    renewal.tick()
    assert len(store.asked) == 1


def test_nothing_is_renewed_past_its_deadline(renewal: Renewal[Row], store: Store, clock: ManualClock) -> None:
    wedged, well = held("a", deadline=10.0), held("b")
    renewal.add(wedged)
    renewal.add(well)
    clock.advance(10)
    renewal.tick()
    assert store.asked[-1][0] == ["b"]
    assert losses(wedged, well) == [0, 0]
    clock.advance(20)
    renewal.tick()
    assert losses(wedged, well) == [1, 0]


def test_a_refused_renewal_loses_the_flight(renewal: Renewal[Row], store: Store) -> None:
    one, other = held("a"), held("b")
    renewal.add(one)
    renewal.add(other)
    store.taken.add("a")
    renewal.tick()
    assert (one.lost, other.lost) == (1, 0)


def test_a_renewal_under_another_token_is_a_refusal(clock: ManualClock) -> None:
    def newer(strands: Sequence[Strand[Row]], lease: Lease, now: datetime) -> Sequence[Strand[Row]]:
        return [Strand(strand.key, "there", strand.token + 1, strand.rows) for strand in strands]

    renewal: Renewal[Row] = Renewal(newer, Store().look, LEASE, clock)
    one = held("a")
    renewal.add(one)
    renewal.tick()
    assert one.lost == 1


def test_a_failing_store_loses_a_flight_only_when_its_lease_has_ended(
    renewal: Renewal[Row], store: Store, clock: ManualClock
) -> None:
    one = held("a")
    renewal.add(one)
    store.error = Unavailable("away")
    for _ in range(2):
        clock.advance(10)
        renewal.tick()
    assert losses(one) == [0]
    clock.advance(10)
    renewal.tick()
    assert losses(one) == [1]


def test_a_store_that_comes_back_in_time_saves_the_lease(
    renewal: Renewal[Row], store: Store, clock: ManualClock
) -> None:
    one = held("a")
    renewal.add(one)
    clock.advance(20)
    store.error = RuntimeError("odd")
    renewal.tick()
    store.error = None
    clock.advance(9)
    renewal.tick()
    assert (one.lost, one.lease_ends) == (0, 59)


def test_a_poke_is_answered_at_once_and_the_thread_ends_with_the_block(renewal: Renewal[Row], store: Store) -> None:
    renewal.add(held("a"))
    others = threads()
    with renewal.thread():
        (thread,) = threads() - others
        renewal.poke()
        assert store.called.acquire(timeout=10)
    thread.join(10)
    assert not thread.is_alive()


def test_a_thread_still_at_work_as_its_block_ends_ends_though_another_block_began(
    store: Store, clock: ManualClock
) -> None:
    asked, answered = threading.Event(), threading.Event()

    def slow(strands: Sequence[Strand[Row]]) -> Sequence[Strand[Row]]:
        asked.set()
        assert answered.wait(10)
        return strands

    renewal = Renewal(store.renew, slow, LEASE, clock)
    renewal.add(held("a"))
    others = threads()
    with renewal.thread():
        (first,) = threads() - others
        renewal.poke()
        assert asked.wait(10)
    with renewal.thread():
        (second,) = threads() - others - {first}
        answered.set()
        first.join(10)
        assert [first.is_alive(), second.is_alive()] == [False, True]


def test_a_hurried_renewal_is_not_waited_for(renewal: Renewal[Row], store: Store) -> None:
    renewal.add(held("a"))
    with renewal.thread():
        renewal.hurry()
        assert store.called.acquire(timeout=10)
    assert [keys for keys, _ in store.asked] == [["a"]]


async def test_leases_are_renewed_while_the_event_loop_is_kept_busy(
    renewal: Renewal[Row], store: Store, clock: ManualClock
) -> None:
    renewal.add(held("a"))
    clock.advance(renewal.interval)
    with renewal.thread():
        # This very loop stands still until the renewal was asked for.
        assert store.called.acquire(timeout=10)
    assert [keys for keys, _ in store.asked] == [["a"]]


def test_a_poke_before_the_thread_waits_is_kept(renewal: Renewal[Row], store: Store) -> None:
    renewal.add(held("a"))
    renewal.poke()
    with renewal.thread():
        assert store.called.acquire(timeout=10)


def test_what_comes_in_after_a_poke_is_looked_at_too(renewal: Renewal[Row], store: Store) -> None:
    with renewal.thread():
        renewal.poke()
        renewal.add(held("a"))
        assert store.called.acquire(timeout=10)
    assert store.asked == []


def test_a_look_tells_what_was_taken_away_and_writes_nothing(renewal: Renewal[Row], store: Store) -> None:
    one, other = held("a"), held("b")
    renewal.add(one)
    renewal.add(other)
    store.taken.add("a")
    renewal.look()
    assert losses(one, other) == [1, 0]
    assert store.asked == []


def test_a_look_that_fails_loses_nothing(renewal: Renewal[Row], store: Store) -> None:
    one = held("a")
    renewal.add(one)
    store.error = Unavailable("gone")
    renewal.look()
    assert not one.lost


@pytest.fixture
def patient(store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Renewal[Row]:
    """One that does nothing for an hour unless it is told to."""
    monkeypatch.setattr(renewing, "_LONGEST_BLINDNESS", 3600.0)
    renewal = Renewal(store.renew, store.look, Lease("me", timedelta(hours=3)), clock)
    renewal.add(held("a"))
    return renewal


def test_each_poke_is_answered_by_a_look(patient: Renewal[Row], store: Store) -> None:
    with patient.thread():
        for _ in range(3):
            patient.poke()
            assert store.called.acquire(timeout=10)
    assert store.asked == []


def test_what_was_being_claimed_at_a_poke_is_looked_at_once_it_is_in_flight(
    patient: Renewal[Row], store: Store, clock: ManualClock
) -> None:
    others = threads()
    with patient.thread():
        (thread,) = threads() - others
        asked = clock.monotonic()
        clock.advance(1)
        patient.poke()
        assert store.called.acquire(timeout=10)
        clock.advance(1)
        later = held("b")
        patient.add(later)
        store.taken.add("b")
        patient.begun(since=asked)
        assert store.called.acquire(timeout=10)
    thread.join(10)
    assert later.lost
    assert store.asked == []


def test_after_a_hurried_renewal_the_next_is_due_in_its_time(patient: Renewal[Row], store: Store) -> None:
    with patient.thread():
        patient.hurry()
        assert store.called.acquire(timeout=10)
        patient.poke()
        assert store.called.acquire(timeout=10)
    assert len(store.asked) == 1


def test_a_store_that_does_not_answer_is_told_of_by_the_kind_of_its_error(
    renewal: Renewal[Row], store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    renewal.add(held("a"))
    store.error = Unavailable("postgresql://user:secret@host")
    renewal.tick()
    renewal.look()
    assert caplog.messages == [
        "leases could not be renewed; they are tried again shortly error=Unavailable",
        "leases could not be looked at; the next renewal will error=Unavailable",
    ]
