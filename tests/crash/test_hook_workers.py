"""Daemons that share agents' events, and that slow down, stop or die on the way."""

import threading
from collections.abc import Iterable, Mapping
from functools import partial

import apsw
import pytest

from tests.crash.events import (
    Event,
    attempts,
    forwarding,
    names_by_session,
    open_headless,
    post_event,
    query,
    recording_events,
    until_all_ended,
)
from tests.servers.daemon import Daemon

NAMES = [f"{n}" for n in range(12)]
SESSIONS = [f"s{n}" for n in range(8)]


@pytest.mark.slow
def test_events_that_wait_longer_than_the_lease_behind_others_of_their_session_come_once(database_url: str) -> None:
    def answer(event: Event) -> int:
        threading.Event().wait(0.4 if event.session_id == "s1" else 0)
        return 200

    with recording_events() as target:
        target.answer = answer
        settings = forwarding(target, lease_seconds=2, deliver_timeout_seconds=1.9)
        with Daemon(database_url, settings=settings) as daemon, Daemon(database_url, settings=settings):
            open_headless(daemon, "warm", "s1")
            post_event(daemon, "warm", "notification", "warm")
            until_all_ended(daemon)
            for name in NAMES:
                post_event(daemon, "s1", "user_prompt_submit", name)
            until_all_ended(daemon)
    came = [(event.name, event.attempt) for event in target.arrivals if event.session_id == "s1"]
    assert came == [(name, 1) for name in NAMES]


@pytest.mark.slow
def test_of_two_daemons_one_is_killed_and_only_what_it_had_in_flight_comes_again(database_url: str) -> None:
    kills = 3
    in_flight: set[int] = set()
    gates = [threading.Event() for _ in range(kills)]

    def answer(event: Event) -> int:
        turn, number = map(int, event.name.split("-"))
        if number == 10:
            gates[turn].wait(20)
        return 200

    with recording_events() as target:
        target.answer = answer
        settings = forwarding(target, deaths_before_longest_wait=1000)
        daemons = {f"n{n}": Daemon(database_url, "--node", f"n{n}", settings=settings).start() for n in range(2)}
        try:
            open_headless(daemons["n0"], *SESSIONS)
            for turn in range(kills):
                for number in range(20):
                    for session in SESSIONS:
                        post_event(daemons[f"n{turn % 2}"], session, "user_prompt_submit", f"{turn}-{number}")
                target.expect(partial(_any_is_called, f"{turn}-10"))
                victim, held = _stopped_with_some_in_flight(daemons, database_url)
                in_flight |= held
                gates[turn].set()
                victim.kill()
                victim.start()
            until_all_ended(daemons["n0"])
        finally:
            for daemon in daemons.values():
                daemon.kill()
    everything = [f"{turn}-{n}" for turn in range(kills) for n in range(20)]
    assert names_by_session(target.arrivals) == dict.fromkeys(SESSIONS, everything)
    again = {number: came for number, came in attempts(target.arrivals).items() if len(came) > 1}
    assert set(again) <= in_flight
    assert all(came == sorted(set(came)) for came in again.values()), again


def test_an_event_that_comes_again_after_a_kill_has_a_higher_attempt(sqlite_url: str) -> None:
    """Also one whose predecessor was delivered and could not be settled any more."""
    held = threading.Event()

    def answer(event: Event) -> int:
        if event.name == "first" and event.attempt == 1:
            lock.execute("BEGIN IMMEDIATE")
        if event.name == "second" and event.attempt == 1:
            held.wait(20)
        return 200

    with recording_events() as target:
        target.answer = answer
        with Daemon(sqlite_url, "--no-workers", settings=forwarding(target)) as door:
            open_headless(door, "s1")
            for name in ("first", "second", "third"):
                post_event(door, "s1", "user_prompt_submit", name)
        lock = apsw.Connection(sqlite_url.removeprefix("sqlite:///"))
        lock.set_busy_timeout(10_000)
        with Daemon(sqlite_url, settings=forwarding(target)) as daemon:
            target.expect(lambda events: any(event.name == "second" for event in events))
            daemon.kill()
            lock.execute("ROLLBACK")
            held.set()
            daemon.start()
            until_all_ended(daemon)
        lock.close()
    came: dict[str, list[int]] = {}
    for event in target.arrivals:
        came.setdefault(event.name, []).append(event.attempt)
    assert [event.name for event in target.arrivals] == ["first", "second", "first", "second", "third"]
    assert came["first"] == came["second"] == [1, 2]


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_sigterm_gives_back_what_was_not_begun_and_the_next_daemon_delivers_it_once(
    database_url: str, command: str
) -> None:
    released = threading.Event()

    def answer(event: Event) -> int:
        if event.name == "2" and event.attempt == 1:
            released.wait(20)
        return 200

    with recording_events() as target:
        target.answer = answer
        settings = forwarding(target, lease_seconds=300) | {"shutdown.grace_seconds": 0.2}
        with Daemon(database_url, "--no-workers", settings=settings) as door:
            open_headless(door, "s1")
            for name in NAMES:
                post_event(door, "s1", "user_prompt_submit", name)
            leaving = Daemon(database_url, command=command, settings=settings, ready=None)
            with leaving:
                target.expect(lambda events: len(events) == 3)
                assert leaving.terminate() == 0
            released.set()
            assert door.call("GET", "/v1/status")[1]["hooks"]["processing"] == 0
            with Daemon(database_url, command=command, settings=settings, ready=None):
                until_all_ended(door)
    came = [(event.name, event.attempt) for event in target.arrivals]
    assert came == [("0", 1), ("1", 1), ("2", 1), ("2", 2), *((name, 1) for name in NAMES[3:])]


def _any_is_called(name: str, events: Iterable[Event]) -> bool:
    return any(event.name == name for event in events)


def _stopped_with_some_in_flight(daemons: Mapping[str, Daemon], database: str) -> tuple[Daemon, set[int]]:
    """The first daemon that, once stopped, has deliveries in flight, and the ids of those."""
    found = (
        "SELECT q.id FROM hook_event q JOIN hook_strand s ON s.session_id = q.session_id "
        "WHERE q.status = 'processing' AND s.lease_until IS NOT NULL AND s.holder LIKE :node"
    )
    for node, daemon in daemons.items():
        daemon.pause()
        if held := {number for (number,) in query(database, found, {"node": f"{node}/%"})}:
            return daemon, held
        daemon.resume()
    raise AssertionError("no daemon has anything in flight")
