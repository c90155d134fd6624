"""A program that tells its answers nowhere but on its screen still answers in the chat."""

import asyncio
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from pillarbox.box import Pillarbox
from pillarbox.conversations import lines
from pillarbox.sessions import Channel
from tests.conversations.stand import TOKEN, standing
from tests.inbound.targets.test_tmux_agents import ECHO
from tests.inbound.targets.tmux_stage import PATIENCE, Stage
from tests.servers.telegram_api import TelegramApi, telegram_api


@pytest.fixture
def api() -> Iterator[TelegramApi]:
    with telegram_api(TOKEN) as api:
        yield api


async def test_what_appears_in_the_terminal_is_told_to_the_chat(
    sqlite_url: str, api: TelegramApi, tmp_path: Path
) -> None:
    async with (
        Stage(tmp_path) as stage,
        standing(sqlite_url, api, tmp_path, conversations={"quiet_seconds": 0.05}) as stand,
    ):
        stage.tmux("new-session", "-d", "-x", "80", "-y", "10", "-s", "echo", sys.executable, "-c", ECHO)
        target = {"kind": "tmux", "name": "echo", "socket": stage.socket, "output": "pane", "paste": "single-line"}
        await stand.box.sessions.open(session_id="e", target=target, channels=[Channel("telegram", "42")])
        async with asyncio.timeout(PATIENCE):
            for question in ("one", "two"):
                while not await has_been_seen(stand.box):
                    await stand.box.conversations.step()
                await stand.box.inbound.enqueue(session_id="e", origin="api", content=question)
                while f"answer to {question}" not in "\n".join(api.said):
                    await stand.settle()
    assert [line for text in api.said for line in text.splitlines() if line.startswith("answer")] == [
        "answer to one",
        "answer to two",
    ]


async def has_been_seen(box: Pillarbox) -> bool:
    """Whether it is known what the terminal showed before anybody asked."""
    found = await box.database.read(partial(lines.watched_panes, "node:here", 10))
    return [source.read.head for source, _ in found] != [None]
