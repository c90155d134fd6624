"""Targets that are away for a while, and sessions that end."""

import threading

from tests.crash.checker import first_deliveries
from tests.crash.recorder import Arrival, recording
from tests.crash.traffic import open_session, post
from tests.servers.daemon import Daemon

PROMPT = {"inbound.poll_seconds": 0.1, "inbound.backoff_seconds": [0.05, 0.2], "inbound.lease_seconds": 30}


def test_a_session_whose_target_was_away_gets_everything_in_order_when_it_returns(database_url: str) -> None:
    away = threading.Event()
    away.set()
    with recording() as target, Daemon(database_url, settings=PROMPT) as daemon:
        target.answer = lambda arrival: 503 if away.is_set() else 200
        open_session(daemon, "s1", target.url)
        numbers = [post(daemon, "s1", f"{n}") for n in range(10)]
        target.expect(lambda arrivals: len(arrivals) >= 3)
        head = daemon.until("/v1/sessions/s1", lambda session: session["queue"]["head"]["status"] == "failed")
        assert head["queue"]["head"]["last_error"] == "The target answered HTTP 503."
        away.clear()
        daemon.until("/v1/sessions/s1", lambda session: session["queue"]["head"] is None)
        delivered = [arrival.message_id for arrival in target.arrivals]
    assert first_deliveries(target.arrivals) == {"s1": list(range(1, 11))}
    assert delivered[-9:] == numbers[1:]


def test_a_closed_session_gets_nothing_more_while_the_others_flow(database_url: str) -> None:
    held = threading.Event()

    def answer(arrival: Arrival) -> int:
        if arrival.session_id == "closing":
            held.wait(20)
            return 503
        return 200

    with recording() as target, Daemon(database_url, settings=PROMPT) as daemon:
        target.answer = answer
        open_session(daemon, "closing", target.url)
        open_session(daemon, "well", target.url)
        for n in range(5):
            post(daemon, "closing", f"{n}")
        target.expect(lambda arrivals: len(arrivals) == 1)
        assert daemon.call("POST", "/v1/sessions/closing/close") == (200, {"expired": 5})
        held.set()
        status, problem = daemon.call(
            "POST", "/v1/inbound", {"session_id": "closing", "origin": "t", "content": "late"}
        )
        assert (status, problem["type"].rpartition(":")[2]) == (409, "session-closed")
        for n in range(5):
            post(daemon, "well", f"{n}")
        target.expect(lambda arrivals: sum(arrival.session_id == "well" for arrival in arrivals) == 5)
        listed = daemon.call("GET", "/v1/inbound?session_id=closing")[1]["items"]
    assert {message["status"] for message in listed} == {"expired"}
    assert [arrival.seq for arrival in target.arrivals if arrival.session_id == "closing"] == [1]
