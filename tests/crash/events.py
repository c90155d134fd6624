"""Posting hook events, and a target outside every process under test that they are forwarded to."""

import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import apsw
import psycopg

from tests.crash.recorder import Recorder, recording_each
from tests.servers.daemon import Daemon, environment

PROMPT = {"hooks.poll_seconds": 0.1, "hooks.backoff_seconds": [0.05, 0.2], "hooks.lease_seconds": 30}


@dataclass(frozen=True, slots=True)
class Event:
    """One event as it came."""

    id: int
    session_id: str
    event_type: str
    payload: dict[str, Any]
    attempt: int

    @property
    def name(self) -> str:
        """What the test calls it."""
        name: str = self.payload["name"]
        return name


def recording_events() -> AbstractContextManager[Recorder[Event]]:
    return recording_each(Event)


def forwarding(target: Recorder[Event], **others: object) -> dict[str, object]:
    """Settings of a daemon that forwards to this target, with short waits; others as `lease_seconds=1`."""
    hooks = {f"hooks.{name}": value for name, value in others.items()}
    return {**PROMPT, "hooks.forward_url": target.url, "shutdown.grace_seconds": 5, **hooks}


def open_headless(daemon: Daemon, *sessions: str) -> None:
    for session in sessions:
        status, _ = daemon.call("POST", "/v1/sessions", {"session_id": session, "target": {"kind": "none"}})
        assert status == 201


def post_event(daemon: Daemon, session: str, event_type: str, name: str) -> int:
    """Store one event; its id."""
    body = {"session_id": session, "event_type": event_type, "payload": {"name": name}}
    status, answer = daemon.call("POST", "/v1/hooks", body)
    assert status == 202, answer
    number: int = answer["id"]
    return number


def until_all_ended(daemon: Daemon) -> None:
    daemon.until(
        "/v1/status", lambda status: not any(status["hooks"][word] for word in ("pending", "processing", "failed"))
    )


def run_pillarbox(*arguments: str) -> str:
    """What a command says that should succeed."""
    program = [sys.executable, "-m", "pillarbox", *arguments]
    return subprocess.run(program, env=environment({}, {}), capture_output=True, text=True, check=True).stdout


def names_by_session(events: Iterable[Event]) -> dict[str, list[str]]:
    """What each session's events are called, in the order in which they first came."""
    order: dict[str, list[str]] = defaultdict(list)
    for event in events:
        if event.name not in order[event.session_id]:
            order[event.session_id].append(event.name)
    return dict(order)


def attempts(events: Iterable[Event]) -> dict[int, list[int]]:
    """The attempts at each event, as they came."""
    found: dict[int, list[int]] = defaultdict(list)
    for event in events:
        found[event.id].append(event.attempt)
    return dict(found)


def query(database: str, statement: str, values: Mapping[str, object] | None = None) -> list[tuple[Any, ...]]:
    """Plain SQL past all of our code, with values as `:name`."""
    if database.startswith("sqlite"):
        with apsw.Connection(database.removeprefix("sqlite:///")) as file:
            file.set_busy_timeout(10_000)
            return list(file.execute(statement, dict(values or {})))
    with psycopg.connect(database, autocommit=True) as server:
        for name in values or {}:
            statement = statement.replace(f":{name}", f"%({name})s")
        answer = server.execute(statement.encode(), values)
        return answer.fetchall() if answer.description else []
