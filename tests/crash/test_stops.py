"""Processes that stop without dying, and processes that are told to."""

import signal
import threading
import time

import pytest

from tests.crash.recorder import Arrival, recording
from tests.crash.traffic import open_session, post
from tests.servers.daemon import Daemon

PROMPT = {"inbound.poll_seconds": 0.1, "inbound.backoff_seconds": [0.05, 0.2]}


@pytest.mark.slow
def test_a_worker_stopped_past_its_lease_changes_nothing_when_it_wakes(database_url: str) -> None:
    settings = PROMPT | {"inbound.lease_seconds": 1, "inbound.deliver_timeout_seconds": 0.9}
    released = threading.Event()
    newest: dict[str, int] = {}
    late: list[Arrival] = []

    def answer(arrival: Arrival) -> int:
        """A target that checks tokens: a smaller one than it has seen is refused."""
        if arrival.token < newest.get(arrival.session_id, 0):
            late.append(arrival)
            return 409
        newest[arrival.session_id] = arrival.token
        if arrival.node == "sleepy":
            released.wait(20)
        return 200

    with recording() as target:
        target.answer = answer
        with (
            Daemon(database_url, "--node", "sleepy", settings=settings) as sleepy,
            Daemon(database_url, "--node", "awake", "--no-workers", settings=settings) as door,
        ):
            open_session(door, "s1", target.url)
            number = post(door, "s1", "hello")
            target.expect(lambda arrivals: len(arrivals) == 1)
            sleepy.pause()
            with Daemon(database_url, "--node", "rescuer", settings=settings) as rescuer:
                target.expect(lambda arrivals: any(arrival.node == "rescuer" for arrival in arrivals))
                rescuer.until(f"/v1/inbound/{number}", lambda message: message["status"] == "delivered")
                before = rescuer.call("GET", f"/v1/inbound/{number}")[1]
                released.set()
                sleepy.resume()
                following = post(door, "s1", "and more")
                door.until(f"/v1/inbound/{following}", lambda message: message["status"] == "delivered")
                assert rescuer.call("GET", f"/v1/inbound/{number}")[1] == before
                assert before["attempt_count"] == 2
                assert late == []
                tokens = [arrival.token for arrival in target.arrivals]
                assert tokens == sorted(set(tokens))


@pytest.mark.slow
def test_sigterm_gives_what_is_in_flight_to_another_node_at_once(database_url: str) -> None:
    settings = PROMPT | {"inbound.lease_seconds": 300, "shutdown.grace_seconds": 0.1}
    released = threading.Event()

    def answer(arrival: Arrival) -> int:
        if arrival.node == "leaving":
            released.wait(20)
        return 200

    with recording() as target:
        target.answer = answer
        with Daemon(database_url, "--node", "leaving", settings=settings) as leaving:
            open_session(leaving, "s1", target.url)
            number = post(leaving, "s1", "hello")
            target.expect(lambda arrivals: len(arrivals) == 1)
            with Daemon(database_url, "--node", "staying", settings=settings) as staying:
                began = time.monotonic()
                assert leaving.terminate() == 0
                target.expect(lambda arrivals: arrivals[-1].node == "staying")
                took = time.monotonic() - began
                staying.until(f"/v1/inbound/{number}", lambda message: message["status"] == "delivered")
                released.set()
    # The lease is five minutes: only a release explains this. Typically it is a few tens of milliseconds after the grace.
    assert took < 10, f"took {took:.2f} s"


@pytest.mark.slow
def test_sigterm_under_load_loses_and_doubles_nothing(database_url: str) -> None:
    settings = PROMPT | {"shutdown.grace_seconds": 5}
    with recording() as target:
        with Daemon(database_url, settings=settings) as daemon:
            for n in range(8):
                open_session(daemon, f"s{n}", target.url)
            numbers = [post(daemon, f"s{n % 8}", f"{n}") for n in range(200)]
            daemon.send(signal.SIGTERM)
            assert daemon.wait() == 0
            daemon.start()
            daemon.until("/v1/status", lambda status: status["inbound"]["pending"] == 0)
            target.expect(lambda arrivals: len(arrivals) >= len(numbers))
        assert sorted(arrival.message_id for arrival in target.arrivals) == numbers
