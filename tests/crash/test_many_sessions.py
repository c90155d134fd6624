"""Ten thousand sessions with one message each when a process starts."""

from pathlib import Path

import pytest

from pillarbox import Pillarbox
from pillarbox.settings import load_settings
from tests.crash.recorder import recording
from tests.servers.daemon import Daemon

SESSIONS = 10_000
CONCURRENCY = 24


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_a_start_with_ten_thousand_waiting_sessions_is_bounded_in_concurrency_and_memory(
    database_url: str,
) -> None:
    with recording() as target:
        async with Pillarbox.open(database_url, settings=load_settings(environ={})) as box:
            await _fill(box, target.url)
        settings = {"inbound.concurrency": CONCURRENCY}
        with Daemon(database_url, settings=settings) as daemon:
            target.expect(lambda arrivals: len(arrivals) == SESSIONS, seconds=240)
            daemon.until("/v1/status", lambda status: status["inbound"]["processing"] == 0)
            peak = _peak_memory(daemon.pid)
    assert len({arrival.message_id for arrival in target.arrivals}) == SESSIONS
    assert target.most_at_once <= CONCURRENCY * 3 // 4
    assert peak < 250_000_000


async def _fill(box: Pillarbox, url: str) -> None:
    import asyncio

    async def one(number: int) -> None:
        session = f"s{number}"
        await box.sessions.open(session_id=session, target={"kind": "http", "url": url})
        await box.inbound.enqueue(session_id=session, origin="t", content="hello")

    for first in range(0, SESSIONS, 500):
        await asyncio.gather(*(one(number) for number in range(first, first + 500)))


def _peak_memory(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the kernel does not tell")
