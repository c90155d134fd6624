"""kill -9 at each step of every adapter: before the commit, after it and before the platform hears of it, and amid a batch."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import apsw
import pytest

from pillarbox.box import Pillarbox
from pillarbox.settings import load_settings
from tests.adapters.feeds import CHATS
from tests.adapters.platforms import BOT_TOKEN, PLATFORMS, SECRET_TOKEN, WHATSAPP, Platform, Said, telegram_update
from tests.adapters.platforms import whatsapp_body as batch_of
from tests.cli.terminal import Terminal
from tests.servers import discord_api as discord
from tests.servers.daemon import SECONDS, Daemon
from tests.servers.discord_api import DiscordApi, discord_api
from tests.servers.telegram_api import TelegramApi, telegram_api

POLLED, LISTENED_TO = "telegram, asked", "discord"


@dataclass
class World:
    """One daemon with every adapter, and the platforms around it."""

    daemon: Daemon
    path: Path
    telegram: TelegramApi
    discord: DiscordApi
    connections: list[tuple[str, int, socket.socket]] = field(default_factory=list)
    answered: set[tuple[str, int]] = field(default_factory=set)

    def say(self, number: int, text: str) -> None:
        """Somebody writes on every platform; what those that post are answered is looked at after the kill."""
        for platform in PLATFORMS:
            connection = send(self.daemon, platform, platform.body(Said(number, text)))
            self.connections.append((platform.name, number, connection))
        self.telegram.post(telegram_update(Said(number, text, chat="77")))
        self.discord.say(text, channel=CHATS[0], number=discord.FIRST_MESSAGE + number)

    def say_again(self, number: int, text: str, *, answers_were_lost: bool = False) -> None:
        """Platforms that got no 200 post the same again, until they get one; those that got it do not, unless it was lost."""
        for platform in PLATFORMS:
            if answers_were_lost or (platform.name, number) not in self.answered:
                with send(self.daemon, platform, platform.body(Said(number, text))) as connection:
                    assert is_taken(connection), platform
                self.answered.add((platform.name, number))
        # Discord tells it again when a session is resumed.
        for message in self.discord.messages[CHATS[0]]:
            self.discord.dispatch("MESSAGE_CREATE", self.discord.live(message))

    def kill(self) -> None:
        """Kill the daemon, and see whom it had answered by then."""
        self.daemon.kill()
        while self.connections:
            platform, number, connection = self.connections.pop()
            with connection:
                self.answered |= {(platform, number)} if is_taken(connection) else set()

    def stored(self) -> dict[str, list[str]]:
        """What is on disk, by adapter, in order."""
        texts: dict[str, list[str]] = {}
        for item in self.daemon.call("GET", "/v1/inbound?limit=1000")[1]["items"]:
            polled = item["origin"] == "telegram" and item["source_channel_id"] == "77"
            texts.setdefault(POLLED if polled else item["origin"], []).append(item["content"])
        return texts

    def expect(self, count: int, *adapters: str) -> None:
        """Wait until so many messages are there for each of these."""

        def there(_: object) -> bool:
            stored = self.stored()
            return all(len(stored.get(adapter, [])) >= count for adapter in adapters)

        self.daemon.until("/v1/inbound", there)


@contextmanager
def nothing_commits(path: Path) -> Iterator[None]:
    """Somebody else holds what every writer needs."""
    with apsw.Connection(str(path)) as other:
        other.set_busy_timeout(30_000)
        other.execute("UPDATE sessions SET title = 'held' WHERE false")
        yield


def send(daemon: Daemon, platform: Platform, body: bytes) -> socket.socket:
    address = urlsplit(daemon.base_url)
    fields = [("Host", address.netloc), ("Content-Length", str(len(body))), *platform.proof(body)]
    head = "".join(f"{name}: {value}\r\n" for name, value in fields)
    connection = socket.create_connection((address.hostname or "", address.port or 0), timeout=SECONDS)
    connection.sendall(f"POST {platform.path} HTTP/1.1\r\n{head}\r\n".encode() + body)
    return connection


def is_taken(connection: socket.socket) -> bool:
    """Whether a platform is told that its message is safe."""
    with suppress(ConnectionResetError):
        return connection.recv(4096).startswith(b"HTTP/1.1 200 ")
    return False


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with telegram_api(BOT_TOKEN) as telegram, discord_api() as guild, ExitStack() as ending:
        guild.add_channel(CHATS[0])
        asked = {"bot_token": BOT_TOKEN, "base_url": telegram.url, "poll_seconds": 1, "backoff_seconds": [0.01]}
        listened = {"bot_token": discord.BOT_TOKEN, "base_url": guild.url, "backoff_seconds": [0.01]}
        settings: dict[str, object] = {"adapters.typing": False, "adapters.discord": listened}
        for platform in PLATFORMS:
            key, _, name = platform.name.partition(".")
            settings[f"adapters.{key}.{name}" if name else f"adapters.{key}"] = dict(platform.section)
        # Both ways at once, as no bot has them: here the two adapters of Telegram share a daemon.
        settings["adapters.telegram"] = {**asked, "secret_token": SECRET_TOKEN, "poll": True}
        path = tmp_path / "pillarbox.db"
        daemon = ending.enter_context(Daemon(f"sqlite:///{path}", settings=settings))
        opened = World(daemon, path, telegram, guild)
        ending.callback(opened.kill)
        yield opened


def lose_confirmation(api: TelegramApi, update: dict[str, Any]) -> threading.Event:
    """No question that confirms this update arrives, until the event is set."""
    over = threading.Event()

    def lose(question: dict[str, Any]) -> None:
        if question.get("offset", 0) > update["update_id"] and not over.is_set():
            over.wait(SECONDS)
            question.pop("offset")

    api.before_confirming = lose
    return over


@pytest.mark.slow
def test_killed_at_any_step_no_adapter_loses_or_doubles_a_message(world: World) -> None:
    daemon, posting = world.daemon, {platform.origin for platform in PLATFORMS}
    everybody = posting | {POLLED, LISTENED_TO}
    world.discord.expect_connected()
    world.say_again(1, "first")
    world.telegram.post(telegram_update(Said(1, "first", chat="77")))
    world.discord.say("first", channel=CHATS[0], number=discord.FIRST_MESSAGE + 1)
    world.expect(1, *everybody)
    handed_over = world.telegram.handed_over

    with nothing_commits(world.path):
        world.say(2, "second")
        world.telegram.expect(lambda: world.telegram.handed_over > handed_over, "an answer")
        # Whatever it would answer without a commit, it has answered when it answers this.
        assert daemon.call("GET", "/healthz")[0] == 200
        world.kill()
    # What is said while nobody listens is told, or fetched, later.
    world.telegram.post(telegram_update(Said(3, "third", chat="77")))
    world.discord.say("third", channel=CHATS[0], number=discord.FIRST_MESSAGE + 3)
    daemon.start()
    stored = world.stored()
    assert {origin: stored[origin] for origin in posting} == {origin: ["first"] for origin in posting}
    world.say_again(2, "second")
    world.say_again(3, "third")
    world.expect(3, *everybody)

    confirmed = lose_confirmation(world.telegram, telegram_update(Said(4, "fourth", chat="77")))
    world.say(4, "fourth")
    world.expect(4, *everybody)
    world.kill()
    confirmed.set()
    daemon.start()
    world.say_again(4, "fourth")
    world.telegram.expect_all_confirmed()
    world.discord.expect_connected(3)
    world.say_again(4, "fourth", answers_were_lost=True)
    assert world.stored() == {adapter: ["first", "second", "third", "fourth"] for adapter in everybody}


@pytest.mark.slow
def test_a_batch_with_bad_messages_that_was_killed_halfway_is_complete_after_the_next_try(world: World) -> None:
    good = [Said(number, str(number)) for number in range(1, 201)]
    bad: list[Any] = [{"from": 5, "id": []}, {"type": "text"}, None]
    batch = batch_of(*good[:100], *bad, *good[100:])
    world.connections.append((WHATSAPP.name, 1, send(world.daemon, WHATSAPP, batch)))
    world.expect(1, "whatsapp")
    world.kill()
    world.daemon.start()
    for _ in range(2):
        with send(world.daemon, WHATSAPP, batch) as connection:
            assert connection.recv(4096).split(b" ")[1] == b"200"
    assert world.stored() == {"whatsapp": [said.text for said in good]}


@pytest.mark.slow
async def test_a_person_at_a_terminal_that_is_killed_finds_what_was_stored_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "pillarbox.db"
    url = f"sqlite:///{path}"
    async with Pillarbox.open(url, settings=load_settings(environ={})) as box:
        await box.sessions.open(session_id="s1", target={"kind": "none"})

        async def stored() -> list[str]:
            return [message.content for message in await box.inbound.list(session_id="s1")]

        def killed_before_the_commit() -> None:
            with Terminal("chat", "s1", "--database", url) as terminal:
                terminal.expect("nothing waits")
                with nothing_commits(path):
                    terminal.type("first\r")
                    terminal.expect("> first")
                    terminal.process.kill()
                    terminal.process.wait()

        def killed_after_it() -> None:
            with Terminal("chat", "s1", "--database", url) as terminal:
                terminal.type("first\r")
                terminal.expect("s1 · 1 waiting")
                terminal.process.kill()

        def finds_it() -> None:
            with Terminal("chat", "s1", "--database", url) as terminal:
                terminal.expect("you  first")
                terminal.type("second\r")
                # The next prompt is there: what is typed between two prompts the terminal takes for itself.
                terminal.expect("s1 · 2 waiting")
                terminal.type("\x04")
                assert terminal.leave() == 0

        await asyncio.to_thread(killed_before_the_commit)
        assert await stored() == []
        await asyncio.to_thread(killed_after_it)
        assert await stored() == ["first"]
        await asyncio.to_thread(finds_it)
        assert await stored() == ["first", "second"], "and what was said last was handed in before it left"
