"""From a person in Telegram to an agent in tmux and back, through a daemon that is killed twice on the way."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conversations import stub_agent
from tests.conversations.stand import TOKEN
from tests.inbound.targets.tmux_stage import Stage
from tests.servers.daemon import Daemon
from tests.servers.telegram_api import TelegramApi, failure, telegram_api

SENT = "/v1/tenants/pillarbox-conversations/messages?status=sent"


@pytest.fixture
def api() -> Iterator[TelegramApi]:
    with telegram_api(TOKEN) as api:
        yield api


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    stage.tmux("kill-server", check=False)


def update(number: int, text: str) -> dict[str, Any]:
    sender = {"id": 7, "is_bot": False, "first_name": "Ada"}
    chat = {"id": 42, "type": "private", "first_name": "Ada"}
    return {"update_id": number, "message": {"message_id": number, "from": sender, "chat": chat, "text": text}}


def prompts(transcript: Path) -> list[str]:
    entries = [json.loads(line) for line in transcript.read_text().splitlines()]
    return [entry["message"]["content"][0]["text"] for entry in entries if entry["type"] == "user"]


@pytest.mark.slow
def test_a_chat_with_an_agent_is_complete_and_in_order_though_the_daemon_is_killed_twice(
    api: TelegramApi, stage: Stage, sqlite_url: str, tmp_path: Path
) -> None:
    transcript = tmp_path / "transcript.jsonl"
    start = [sys.executable, stub_agent.__file__, str(transcript), sqlite_url]
    target = {"kind": "tmux", "name": "agent", "socket": stage.socket, "envelope": False, "start": start}
    settings = {
        "adapters.telegram.bot_token": TOKEN,
        "adapters.telegram.base_url": api.url,
        "adapters.telegram.poll_seconds": 1,
        "adapters.default_target": json.dumps(target),
        "outbound.channels.telegram.backoff_base_seconds": 0.05,
        "inbound.backoff_seconds": "[0.1]",
        "adapters.telegram.backoff_seconds": "[0.1]",
    }
    with Daemon(sqlite_url, settings=settings) as daemon:
        killed: list[str] = []

        def kill_while_sending(message: dict[str, Any]) -> None:
            """The reply has left the daemon, Telegram has not taken it, and there is nobody to hear that."""
            if message["text"] == "you said: two" and not killed:
                api.refusals.append(failure(500, "Internal Server Error"))
                daemon.kill()
                killed.append("while sending")

        def kill_before_confirming(question: dict[str, Any]) -> None:
            """The message is on disk, and Telegram has not been told so."""
            if question.get("offset", 0) > 3 and len(killed) == 1:
                daemon.kill()
                killed.append("before confirming")

        api.before_sending, api.before_confirming = kill_while_sending, kill_before_confirming
        api.post(update(1, "one"))
        api.expect(lambda: api.said == ["you said: one"], "the first answer")
        api.post(update(2, "two"))
        api.expect(lambda: killed == ["while sending"], "the first kill")
        daemon.start()
        api.expect(lambda: api.said[1:] == ["you said: two"], "the second answer")
        # Whoever is killed between an answer of Telegram's and its mark sends once more, and may.
        daemon.until(SENT, lambda page: len(page["items"]) == 2)
        api.post(update(3, "three"))
        api.expect(lambda: len(killed) == 2, "the second kill")
        daemon.start()
        api.post(update(4, "four\nin two lines"), update(5, "five"))
        wanted = ["one", "two", "three", "four\nin two lines", "five"]
        heard = "\n\n".join(f"you said: {text}" for text in wanted)
        api.expect(lambda: "\n\n".join(api.said) == heard, f"the whole conversation: {api.said}")
        api.expect_all_confirmed()
    assert prompts(transcript) == wanted
    assert {message["chat_id"] for message in api.sent} == {"42"}
