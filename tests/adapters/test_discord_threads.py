"""Threads that belong to the session of their channel: people are answered where they wrote, and their files are found there."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pillarbox.inbound.adapters.discord import Place, message_in
from pillarbox.media.fetch import Fetcher
from pillarbox.media.model import MediaPolicy, Platform, references_in
from pillarbox.outbound.client import Client
from tests.conversations.stand import TOKEN, say, standing
from tests.servers.daemon import Daemon
from tests.servers.scripted import Scripted, scripted
from tests.servers.telegram_api import telegram_api

CHANNEL, THREAD, OTHER_THREAD = "800000000000000002", "800000000000000101", "800000000000000102"
BOT = "MTA1234.a-token.x"


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted() as server:
        for channel in (CHANNEL, THREAD, OTHER_THREAD):
            server.answers[f"POST /api/v10/channels/{channel}/messages"] = 200, {"id": "1"}
        yield server


def written(number: int, channel: str, **more: Any) -> Any:
    """A message as it is taken where threads belong to their channel."""
    parent = None if channel == CHANNEL else CHANNEL
    message = {"id": str(number), "channel_id": channel, "type": 0, "content": "hello", "author": {"id": "6"}, **more}
    return message_in(message, Place("800000000000000001", parent), threads="parent")


async def test_an_answer_goes_to_the_thread_of_the_message_that_the_agent_was_given_last(
    server: Scripted, sqlite_url: str, tmp_path: Path
) -> None:
    adapters = {"discord": {"bot_token": BOT, "listen": False, "base_url": f"{server.url}/api/v10"}, "typing": False}
    with telegram_api(TOKEN) as api:
        async with standing(sqlite_url, api, tmp_path, adapters=adapters) as stand:
            transcript = await stand.open("s", ("discord", CHANNEL))
            for number, channel in enumerate((THREAD, CHANNEL, OTHER_THREAD), 1):
                await stand.box.adapters.take(written(number, channel))
                await stand.settle()
                say(transcript, f"an answer to {number}")
                await stand.settle()
            await stand.box.adapters.take(written(4, THREAD))
            say(transcript, "more of the third answer, while the fourth message waits")
            stand.box.conversations.look_again()
            await stand.box.conversations.step()
            await stand.box.outbound.drain.step()
            await stand.box.outbound.drain.step()
    assert [asked.path.split("/")[4] for asked in server.asked] == [THREAD, CHANNEL, OTHER_THREAD, OTHER_THREAD]


async def test_a_file_whose_address_has_expired_is_asked_for_in_its_thread(server: Scripted) -> None:
    server.answers["GET /old"] = 404, b""
    server.answers["GET /fresh"] = 200, b"file"
    message = f"/channels/{THREAD}/messages/7"
    server.answers[f"GET {message}"] = lambda asked: (200, {"attachments": [{"id": "9", "url": f"{server.url}/fresh"}]})
    received = written(7, THREAD, attachments=[{"id": "9", "url": f"{server.url}/old", "filename": "a.txt"}])
    (wanted,) = references_in(
        received.payload, origin="discord", channel_id=received.channel_id, message_id=received.source_message_id
    )
    client = Client()
    platforms = {"discord": Platform(server.url, "token", frozenset({server.url}))}
    assert await Fetcher(client, platforms, MediaPolicy()).fetch(wanted) == b"file"
    await client.close()
    assert server.asked_for(message)


def test_a_daemon_that_is_to_listen_without_the_extra_says_what_to_install_and_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['hikari'] = None\n")
    environ = {"PYTHONPATH": ":".join([str(tmp_path), *filter(None, sys.path)])}
    settings = {"adapters.discord.bot_token": BOT}
    database = f"sqlite:///{tmp_path}/pillarbox.db"
    for command in ("serve", "worker", "doctor"):
        daemon = Daemon(database, command=command, settings=settings, environ=environ, ready=None).start()
        assert daemon.wait() != 0
        assert "pip install 'pillarbox[discord]'" in daemon.out.whole() + daemon.logs.whole(), command
    with Daemon(database, settings={**settings, "adapters.discord.listen": False}, environ=environ) as daemon:
        daemon.until("/readyz")
