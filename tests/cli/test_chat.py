"""Talking to a session from a terminal, and from a pipe."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pillarbox.box import Pillarbox
from pillarbox.inbound import InboundMessage
from pillarbox.settings import load_settings
from tests.api.running import working
from tests.cli.terminal import Terminal
from tests.servers.daemon import Daemon, environment

NOBODY = {"kind": "none"}


@asynccontextmanager
async def answering(url: str) -> AsyncIterator[Pillarbox]:
    """A box at work, with an agent that repeats what it is told."""
    async with Pillarbox.open(url, settings=load_settings(environ={}), node="here") as box:

        @box.inbound.target("agent")
        async def repeat(message: InboundMessage) -> None:
            told = {"prompt": message.content}
            await box.hooks.post(message.session_id, "user_prompt_submit", told)
            said = {"summary": f"You said {message.content}"}
            await box.hooks.post(message.session_id, "agent_stop", said)

        async with working(box):
            yield box


async def contents(box: Pillarbox) -> list[str]:
    return [message.content for message in await box.inbound.list(session_id="s1", limit=1000)]


async def test_a_person_sees_what_is_said_and_is_answered(sqlite_url: str) -> None:
    async with answering(sqlite_url) as box:
        await box.sessions.open(session_id="s1", target={"kind": "python", "name": "agent"})
        await box.inbound.enqueue(
            session_id="s1", origin="telegram", actor_name="Ann", content="from \x1b]52;c;eA==\x07 Ann"
        )
        with Terminal("chat", "s1", "--database", sqlite_url) as terminal:
            await asyncio.to_thread(terminal.expect, "Ann (telegram)")
            await asyncio.to_thread(terminal.expect, "You said from")
            terminal.type("Hello.\r")
            await asyncio.to_thread(terminal.expect, "✓ delivered")
            await asyncio.to_thread(terminal.expect, "You said Hello.")
            terminal.type("\x1b[200~one\ntwo\x1b[201~\r")
            await asyncio.to_thread(terminal.expect, "You said one")
            # The line before the one that was pasted, again.
            terminal.type("\x1b[A\x1b[A\x1b[A\r")
            await asyncio.to_thread(terminal.expect, "You said Hello.", times=2)
            await asyncio.to_thread(terminal.expect, "nothing waits")
            terminal.type("\x04")
            assert await asyncio.to_thread(terminal.leave) == 0
            assert b"\x1b]52" not in terminal.raw
        assert (await contents(box))[1:] == ["Hello.", "one\ntwo", "Hello."]
        rows = await box.inbound.list(session_id="s1")
        assert {(row.origin, row.actor_name) for row in rows[1:]} == {("terminal", None)}


async def test_keys_are_taken_one_by_one_while_something_is_printed_too(sqlite_url: str) -> None:
    async with Pillarbox.open(sqlite_url, settings=load_settings(environ={}), node="here") as box:
        await box.sessions.open(session_id="s1", target=NOBODY)
        with Terminal("chat", "s1", "--database", sqlite_url) as terminal:
            await asyncio.to_thread(terminal.expect, "nothing waits")
            printing = asyncio.to_thread(terminal.expect, "somebody (shop)  the last")
            printed = asyncio.create_task(printing)
            for text in (*map(str, range(20)), "the last"):
                await box.inbound.enqueue(session_id="s1", origin="shop", content=text)
            while not printed.done():
                assert not terminal.waits_for_lines
                await asyncio.sleep(0)
            await printed


async def test_a_person_sees_and_gives_up_what_waits(sqlite_url: str) -> None:
    async with Pillarbox.open(sqlite_url, settings=load_settings(environ={}), node="here") as box:
        await box.sessions.open(session_id="s1", target=NOBODY)
        with Terminal("chat", "s1", "--database", sqlite_url, "--name", "Ann") as terminal:
            terminal.type("not now\r")
            await asyncio.to_thread(terminal.expect, "s1 · 1 waiting; nobody delivers now, start pillarbox serve")
            terminal.type("/queue\r")
            await asyncio.to_thread(terminal.expect, "1. not now")
            terminal.type("/cancel\r")
            await asyncio.to_thread(terminal.expect, "1 message was canceled.")
            await asyncio.to_thread(terminal.expect, "✗ canceled")
            terminal.type("half a thought\x03")
            terminal.type("\x03")
            assert await asyncio.to_thread(terminal.leave) == 0
        (row,) = await box.inbound.list(session_id="s1")
        assert (row.status, row.actor_name) == ("expired", "Ann")
        await box.inbound.enqueue(session_id="s1", origin="shop", content="later")
        with Terminal("chat", "s1", "--database", sqlite_url) as terminal:
            await asyncio.to_thread(terminal.expect, "Ann  not now  ✗")
            await asyncio.to_thread(terminal.expect, "somebody (shop)  later  …")


def test_a_chat_goes_on_while_the_daemon_is_killed_and_started_again(sqlite_url: str, tmp_path: Path) -> None:
    with Daemon(sqlite_url) as daemon:
        target = {"kind": "command", "argv": ["sh", "-c", f"cat > {tmp_path}/given"]}
        daemon.call("POST", "/v1/sessions", {"session_id": "s1", "target": target})
        with Terminal("chat", "s1", "--database", sqlite_url) as terminal:
            terminal.type("one\r")
            terminal.expect("✓ delivered")
            daemon.kill()
            terminal.type("two\r")
            terminal.expect("1 waiting; nobody delivers now, start pillarbox serve")
            daemon.start()
            terminal.expect("✓ delivered", times=2)
            terminal.expect("nothing waits")
            terminal.resize(columns=40, lines=12)
            terminal.type("three\r")
            terminal.expect("✓ delivered", times=3)
            terminal.type("\x04")
            assert terminal.leave() == 0


async def test_a_session_that_was_closed_meanwhile_ends_the_chat(sqlite_url: str) -> None:
    async with Pillarbox.open(sqlite_url, settings=load_settings(environ={}), node="here") as box:
        await box.sessions.open(session_id="s1", target=NOBODY)
        with Terminal("chat", "s1", "--database", sqlite_url) as terminal:
            await asyncio.to_thread(terminal.expect, "nothing waits")
            await box.sessions.close("s1")
            await asyncio.to_thread(terminal.expect, "s1 · closed")
            terminal.type("too late\r")
            assert await asyncio.to_thread(terminal.leave) == 4
            assert "Session s1 is closed" in terminal.text
        assert await contents(box) == []


def chat(url: str, said: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "pillarbox", "chat", "s1", "--database", url, *arguments]
    return subprocess.run(command, env=environment({}, {}), input=said, capture_output=True, timeout=60, check=False)


async def test_lines_from_a_pipe_are_messages_and_the_replies_are_printed(sqlite_url: str) -> None:
    async with answering(sqlite_url) as box:
        await box.sessions.open(session_id="s1", target={"kind": "python", "name": "agent"})
        ended = await asyncio.to_thread(chat, sqlite_url, b"one\n\n  two\r\n")
        assert (ended.returncode, ended.stderr) == (0, b"")
        assert ended.stdout.decode().splitlines()[-1] == "You said   two"
        assert await contents(box) == ["one", "  two"]
        ended = await asyncio.to_thread(chat, sqlite_url, b"three\n/queue\n", "--json")
        told = json.loads(ended.stdout)
        assert [each["text"] for each in told["said"]] == ["three", "/queue"]
        assert told["replies"][-1]["text"] == "You said three"


async def test_a_command_behind_the_last_answer_is_not_waited_for(sqlite_url: str) -> None:
    async with answering(sqlite_url) as box:
        await box.sessions.open(session_id="s1", target={"kind": "python", "name": "agent"})
        command = [sys.executable, "-m", "pillarbox", "chat", "s1", "--database", sqlite_url, "--wait", "3600"]
        process = await asyncio.create_subprocess_exec(
            *command, env=environment({}, {}), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdin
        assert process.stdout
        process.stdin.write(b"one\n")
        assert await process.stdout.readline() == b"You said one\n"
        ended, _ = await asyncio.wait_for(process.communicate(b"/queue\n"), 60)
        assert ended == b"Nothing waits for the agent.\n"


async def test_a_pipe_that_need_not_be_answered_ends_at_once(sqlite_url: str) -> None:
    async with Pillarbox.open(sqlite_url, settings=load_settings(environ={}), node="here") as box:
        await box.sessions.open(session_id="s1", target=NOBODY)
        ended = await asyncio.to_thread(chat, sqlite_url, "grüß dich".encode(), "--wait", "0")
        assert (ended.returncode, ended.stdout) == (0, b"")
        assert await contents(box) == ["grüß dich"]


@pytest.mark.parametrize(
    ("session", "said", "code"), [(False, b"x\n", 3), (True, b"\xff\n", 2)], ids=["unknown", "bytes"]
)
async def test_what_cannot_be_said_is_refused(sqlite_url: str, session: bool, said: bytes, code: int) -> None:
    async with Pillarbox.open(sqlite_url, settings=load_settings(environ={}), node="here") as box:
        if session:
            await box.sessions.open(session_id="s1", target=NOBODY)
        assert (await asyncio.to_thread(chat, sqlite_url, said)).returncode == code
