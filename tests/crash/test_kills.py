"""kill -9, again and again, under load."""

import random
import threading

import pytest

from tests.crash.checker import duplicates, inversions, lost
from tests.crash.producer import producing
from tests.crash.recorder import recording
from tests.servers.daemon import Daemon

SESSIONS = [f"s{n}" for n in range(8)]
KILLS = 12
SETTINGS = {
    "inbound.lease_seconds": 1,
    "inbound.poll_seconds": 0.2,
    "inbound.backoff_seconds": [0.05, 0.2],
    "inbound.deaths_before_longest_wait": 1000,
    "shutdown.grace_seconds": 1,
}


@pytest.mark.long
@pytest.mark.parametrize("nodes", [1, 2])
def test_nothing_acknowledged_is_lost_and_order_is_exact_under_kill_9(database_url: str, nodes: int) -> None:
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    with recording() as target:
        daemons = [Daemon(database_url, "--node", f"n{n}", settings=SETTINGS).start() for n in range(nodes)]
        try:
            for session in SESSIONS:
                opened = {"session_id": session, "target": {"kind": "http", "url": target.url}}
                assert daemons[0].call("POST", "/v1/sessions", opened)[0] == 201
            with producing(SESSIONS, lambda: chance.choice(daemons)) as producers:
                for _ in range(KILLS):
                    target.expect_more(20)
                    threading.Event().wait(chance.uniform(0, 0.1))
                    victim = chance.choice(daemons)
                    victim.kill()
                    victim.start()
            acknowledged = [number for producer in producers for number in producer.acknowledged]
            assert [producer.trouble for producer in producers if producer.trouble] == []
            daemons[0].until("/v1/status", lambda status: status["inbound"]["pending"] == 0)
            daemons[0].until("/v1/status", lambda status: sum(_open(status)) == 0)
        finally:
            for daemon in daemons:
                daemon.kill()
        arrivals = target.arrivals
    assert lost(acknowledged, arrivals) == set(), f"seed {seed}"
    assert inversions(arrivals) == [], f"seed {seed}"
    # At most what was in flight at each kill: one message of each session.
    assert duplicates(arrivals) <= KILLS * len(SESSIONS), f"seed {seed}"


def _open(status: dict[str, dict[str, int]]) -> list[int]:
    inbound = status["inbound"]
    return [inbound["pending"], inbound["processing"], inbound["failed"]]
