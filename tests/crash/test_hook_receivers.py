"""What agents' hooks tell while nobody listens, or while the database is busy."""

import json
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from tests.crash.events import Event, forwarding, query, recording_events, run_pillarbox, until_all_ended
from tests.servers.daemon import SECONDS, Daemon, environment

SESSIONS = [f"agent-{n}" for n in range(10)]
EACH = 20
LOCKED_SECONDS = 2.0
FIRST_TO_END = 50


@pytest.mark.slow
def test_receivers_lose_nothing_with_the_daemon_off_and_the_database_locked_and_order_is_kept(sqlite_url: str) -> None:
    run_pillarbox("migrate", "--database", sqlite_url)
    ended = threading.Semaphore(0)

    def be_an_agent(session: str) -> None:
        for n in range(EACH):
            receive(sqlite_url, session, n)
            ended.release()

    with ThreadPoolExecutor(len(SESSIONS)) as agents:
        working = [agents.submit(be_an_agent, session) for session in SESSIONS]
        for _ in range(FIRST_TO_END):
            assert ended.acquire(timeout=SECONDS)
        with locked(sqlite_url):
            threading.Event().wait(LOCKED_SECONDS)
        for each in working:
            each.result()
    stored = query(sqlite_url, "SELECT count(*) FROM hook_outbox")[0][0]
    assert 0 < stored < len(SESSIONS) * EACH
    assert stored + spooled_lines(sqlite_url) == len(SESSIONS) * EACH

    with recording_events() as target, Daemon(sqlite_url, settings=forwarding(target)) as daemon:
        target.expect(lambda events: len(events) >= len(SESSIONS) * EACH)
        until_all_ended(daemon)
    assert told(target.arrivals) == {session: list(range(EACH)) for session in SESSIONS}
    assert Counter(event.attempt for event in target.arrivals) == {1: len(SESSIONS) * EACH}
    assert spool_files(sqlite_url) == []


def test_a_running_daemon_picks_up_in_order_what_was_spooled_while_the_database_was_locked(sqlite_url: str) -> None:
    with recording_events() as target, Daemon(sqlite_url, settings=forwarding(target)) as daemon:
        for session in ("agent-1", "agent-2"):
            for n in range(3):
                receive(sqlite_url, session, n)
            with locked(sqlite_url):
                for n in range(3, 6):
                    receive(sqlite_url, session, n)
                assert spooled_lines(sqlite_url) == 3
                threading.Event().wait(LOCKED_SECONDS / 2)
            for n in range(6, 9):
                receive(sqlite_url, session, n)
        target.expect(lambda events: len(events) >= 18)
        until_all_ended(daemon)
        assert daemon.process.poll() is None
    assert told(target.arrivals) == {"agent-1": list(range(9)), "agent-2": list(range(9))}
    assert [event.attempt for event in target.arrivals] == [1] * 18
    assert spool_files(sqlite_url) == []


def receive(database: str, session: str, number: int) -> None:
    """One event of an agent, as its hook gives it: every second agent's session has a name of ours, the others only their own."""
    kind = {"hook_event_name": "UserPromptSubmit", "prompt": f"{session}/{number}"}
    if number % 2:
        kind = {"hook_event_name": "Stop", "last_assistant_message": f"{session}/{number}"}
    named = {"PILLARBOX_SESSION": session} if int(session[-1]) % 2 else {}
    done = subprocess.run(
        [str(Path(sys.executable).with_name("pillarbox")), "hook", "--agent", "claude", "--database", database],
        input=json.dumps({"session_id": f"native-{session}", **kind}).encode(),
        env=environment({}, named),
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@contextmanager
def locked(database: str) -> Iterator[None]:
    """Somebody else's writer that does not let go."""
    writer = apsw.Connection(database.removeprefix("sqlite:///"))
    writer.set_busy_timeout(10_000)
    writer.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        writer.execute("ROLLBACK")
        writer.close()


def spooled_lines(database: str) -> int:
    return sum(len(file.read_text().splitlines()) for file in spool_files(database))


def spool_files(database: str) -> list[Path]:
    """The spool's files that hold anything."""
    folder = Path(database.removeprefix("sqlite:///") + ".spool")
    return [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size]


def told(events: list[Event]) -> dict[str, list[int]]:
    """The numbers that each agent told, as they came; all under one session."""
    numbers: dict[str, list[int]] = defaultdict(list)
    sessions: dict[str, set[str]] = defaultdict(set)
    for event in events:
        agent, _, number = (event.payload.get("prompt") or event.payload["summary"]).partition("/")
        numbers[agent].append(int(number))
        sessions[agent].add(event.session_id)
    assert [len(found) for found in sessions.values()] == [1] * len(sessions)
    return dict(sorted(numbers.items()))
