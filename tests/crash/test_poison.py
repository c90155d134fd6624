"""A message that kills whoever delivers it."""

import pytest

from tests.crash.recorder import recording
from tests.servers.daemon import Daemon

KILLS_ITS_WORKER = {"kind": "command", "argv": ["sh", "-c", "kill -9 $PPID"]}


@pytest.mark.slow
def test_a_message_that_kills_its_process_waits_the_longest_step_and_the_others_flow(database_url: str) -> None:
    settings = {
        "inbound.lease_seconds": 0.5,
        "inbound.poll_seconds": 0.1,
        "inbound.backoff_seconds": [0.05, 3600],
        "inbound.deaths_before_longest_wait": 3,
    }
    with recording() as target:
        daemon = Daemon(database_url, settings=settings).start()
        try:
            daemon.call("POST", "/v1/sessions", {"session_id": "poison", "target": KILLS_ITS_WORKER})
            daemon.call("POST", "/v1/sessions", {"session_id": "well", "target": {"kind": "http", "url": target.url}})
            status, poison = daemon.call(
                "POST", "/v1/inbound", {"session_id": "poison", "origin": "t", "content": "boom"}
            )
            assert status == 202
            deaths = 0
            for _ in range(3):
                assert daemon.wait() == -9
                deaths += 1
                daemon.start()
            message = daemon.until(
                f"/v1/inbound/{poison['id']}",
                lambda message: message["status"] == "failed" and message["death_count"] == 3,
            )
            assert "deaths so far: 3" in message["last_error"]
            assert message["next_retry_at"] > message["created_at"]
            assert message["attempt_count"] == 3
            status, well = daemon.call("POST", "/v1/inbound", {"session_id": "well", "origin": "t", "content": "hi"})
            daemon.until(f"/v1/inbound/{well['id']}", lambda message: message["status"] == "delivered")
            assert daemon.process.poll() is None
        finally:
            daemon.kill()
    assert deaths == 3
