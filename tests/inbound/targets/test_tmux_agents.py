"""Agents in tmux that have to be started, are at work, or tell their answers nowhere but on their screen."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pillarbox.box import Pillarbox
from pillarbox.clock import EPOCH, OffsetClock
from pillarbox.conversations.model import Cursor, Source
from pillarbox.conversations.pane import PaneWatch
from pillarbox.engine import Delivered, Skipped
from pillarbox.inbound.model import InboundMessage, Parcel
from pillarbox.inbound.targets import Targets
from pillarbox.inbound.targets.tmux import TmuxDeliverer
from pillarbox.testing import ManualClock
from tests.inbound.targets import tmux_recorder
from tests.inbound.targets.messages import a_message
from tests.inbound.targets.tmux_stage import PATIENCE, Recorder, Stage, submitted

ECHO = "while True: print('answer to', input('> '))"


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with Stage(tmp_path) as stage:
        yield stage


def said(content: str, message_id: int = 1, **changes: Any) -> Any:
    return a_message(id=message_id, content=content, payload_json=None, **{"actor_name": None, **changes})


async def test_a_session_without_a_terminal_gets_its_program_started_and_then_its_messages(
    stage: Stage, sqlite_url: str
) -> None:
    address = str(stage.folder / "recorder")
    connected: asyncio.Future[Recorder] = asyncio.get_running_loop().create_future()
    server = await asyncio.start_unix_server(lambda *ends: connected.set_result(Recorder(*ends)), address)
    start = [sys.executable, tmux_recorder.__file__, address, "bracketed"]
    target = {"kind": "tmux", "name": "agent", "socket": stage.socket, "start": start, "cwd": str(stage.folder)}
    async with Pillarbox.open(sqlite_url, node="here") as box:
        await box.sessions.open(session_id="a session", target=target, lifecycle_status="headless", node="here")
        for text in ("one", "two"):
            await box.inbound.enqueue(session_id="a session", origin="api", content=text)
        async with asyncio.timeout(PATIENCE):
            while len(await box.inbound.list(status="delivered")) < 2:
                await box.inbound.drain.step()
        assert (await box.sessions.get("a session")).lifecycle_status == "active"
    recorder = await connected
    server.close()
    await recorder.until(b"ready\n")
    assert await recorder.submission() == submitted("one")
    assert await recorder.submission() == submitted("two")
    assert stage.tmux("show-environment", "-t", "=agent", "PILLARBOX_SESSION") == "PILLARBOX_SESSION=a session"
    assert stage.tmux("display-message", "-p", "-t", "=agent:", "#{pane_current_path}") == str(stage.folder.resolve())
    await recorder.close()


async def test_a_name_is_a_name_and_not_a_command_when_a_program_is_started(stage: Stage) -> None:
    await stage.record("bystander")
    address = str(stage.folder / "recorder")
    connected: asyncio.Future[Recorder] = asyncio.get_running_loop().create_future()
    server = await asyncio.start_unix_server(lambda *ends: connected.set_result(Recorder(*ends)), address)
    marker = stage.folder / "marker"
    name = f"#(touch {str(marker).replace('.', '?')})#{{pid}}"
    start = (sys.executable, tmux_recorder.__file__, address, "bracketed")
    target = stage.target(name, start=start)
    assert await TmuxDeliverer(pause_seconds=0).deliver(target, said("hello")) == Delivered()
    recorder = await connected
    server.close()
    await recorder.until(b"ready\n")
    assert await recorder.submission() == submitted("hello")
    assert name in stage.tmux("list-sessions", "-F", "#{session_name}").splitlines()
    assert not await asyncio.to_thread(marker.exists)
    await recorder.close()


async def test_an_agent_at_work_is_interrupted_once_for_a_message_where_that_is_wished(stage: Stage) -> None:
    recorder = await stage.record("agent")
    deliverer = TmuxDeliverer(pause_seconds=0)
    target = stage.target("agent", busy="interrupt")
    assert await deliverer.deliver(target, said("stop that"), interrupt=True) == Delivered()
    assert await recorder.submission() == b"\x1b" + submitted("stop that")
    assert await deliverer.deliver(target, said("go on", 2), interrupt=False) == Delivered()
    assert await recorder.submission() == submitted("go on")


@pytest.mark.parametrize(("busy", "working"), [("type", True), ("queue", False), ("queue", True), ("interrupt", True)])
async def test_a_busy_agent_is_typed_to_waited_for_or_interrupted(stage: Stage, busy: str, working: bool) -> None:
    recorder = await stage.record("agent")
    targets = Targets(node="here", clock=ManualClock())

    async def is_working(session_id: str) -> bool:
        return working

    targets.is_working = is_working
    target = {"kind": "tmux", "name": "agent", "socket": stage.socket, "busy": busy}
    outcome = await targets.deliver(Parcel(said("hello"), json.dumps(target)))
    if busy == "queue" and working:
        assert isinstance(outcome, Skipped), "its attempt is given back"
        return
    assert outcome == Delivered()
    assert await recorder.submission() == (b"\x1b" if busy == "interrupt" else b"") + submitted("hello")


async def test_a_message_of_which_more_is_learned_between_attempts_is_typed_once(stage: Stage) -> None:
    recorder, ahead = await stage.record("agent"), timedelta(0)
    clock = OffsetClock(counter=lambda: 0.0, offset=0.0, wall=lambda: EPOCH + ahead)
    targets, given = Targets(node="here", clock=clock), []

    async def take(message: InboundMessage) -> None:
        given.append(message.created_at)

    targets.register("take", take)
    typed = json.dumps({"kind": "tmux", "name": "agent", "socket": stage.socket})
    before = said("", message_type="voice")
    assert await targets.deliver(Parcel(before, typed)) == Delivered()
    ahead = timedelta(hours=1)
    clock.follow(0.0)
    learned = said("as transcribed", message_type="voice")
    assert await targets.deliver(Parcel(learned, typed)) == Delivered()
    assert await targets.deliver(Parcel(said("next", 2), typed)) == Delivered()
    assert b"Voice message" in await recorder.submission()
    assert await recorder.submission() == submitted("next")
    assert await targets.deliver(Parcel(learned, '{"kind": "python", "name": "take"}')) == Delivered()
    assert given == [learned.created_at + ahead], "other targets are told the time of the wall clock"


def ask(stage: Stage, text: str, place: str = "=echo:") -> None:
    """Type a question and wait for its answer on the screen."""
    stage.tmux("send-keys", "-t", place, text, "Enter")
    shows(stage, f"answer to {text}", place)


def shows(stage: Stage, text: str, place: str) -> None:
    """Wait until a text is on the screen."""
    deadline = time.monotonic() + PATIENCE
    while text not in stage.tmux("capture-pane", "-p", "-t", place):
        assert time.monotonic() < deadline


class Onlooker:
    """Looks at the terminal `echo` from time to time."""

    def __init__(self, stage: Stage) -> None:
        stage.tmux("new-session", "-d", "-x", "80", "-y", "10", "-s", "echo", sys.executable, "-c", ECHO)
        self._target = {"kind": "tmux", "name": "echo", "socket": stage.socket}
        self._watch, self._cursor, self._moment = PaneWatch(quiet=2.0), Cursor("pane"), 0.0

    async def look(self, seconds: float) -> str | None:
        self._moment += seconds
        source = Source("s", None, None, datetime(2026, 1, 1, tzinfo=UTC), self._cursor)
        seen = await self._watch.look(source, self._target, self._moment)
        if seen is not None:
            self._cursor = seen.cursor
        return None if seen is None else seen.text


async def test_what_a_program_answers_on_its_screen_is_seen_once_it_is_still(stage: Stage) -> None:
    look = Onlooker(stage).look
    await asyncio.to_thread(ask, stage, "before")
    assert [await look(0), await look(1), await look(2)] == [None, None, ""], "what was there before is no news"
    for number in range(12):
        await asyncio.to_thread(ask, stage, f"question {number}")
    assert [await look(0.5), await look(1)] == [None, None], "it may still be writing"
    text = await look(2)
    assert text is not None
    lines = text.splitlines()
    assert [line for line in lines if line.startswith("answer")] == [f"answer to question {n}" for n in range(12)]
    assert await look(9) is None


async def test_only_the_pane_that_messages_go_into_is_told_whatever_window_people_look_at(stage: Stage) -> None:
    look = Onlooker(stage).look
    await asyncio.to_thread(ask, stage, "before")
    assert [await look(0), await look(2)] == [None, ""]
    stage.tmux("new-window", "-t", "=echo:", "echo a secret; exec cat")
    await asyncio.to_thread(shows, stage, "a secret", "=echo:")
    assert [await look(0), await look(2), await look(2)] == [None, None, None]
    recorder = await stage.record("", "bracketed", "new-window", "-t", "=echo:")
    await asyncio.to_thread(ask, stage, "that", "=echo:0")
    assert [await look(0), await look(2)] == [None, "> that\nanswer to that"]
    stage.tmux("kill-window", "-t", "=echo:0")
    assert [await look(0), await look(2), await look(2)] == [None, None, None], "nor when it is gone"
    stage.tmux("set-option", "-t", "=echo:", "@pbx-pane", "%2")
    assert await TmuxDeliverer(pause_seconds=0).deliver(stage.target("echo"), said("hello")) == Delivered()
    assert await recorder.submission() == submitted("hello")
