"""The platforms that are asked or listened to, each with a local server that behaves as it documents."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.adapters.platforms import BOT, BOT_TOKEN, Said, telegram_update
from tests.servers import discord_api as discord
from tests.servers.discord_api import discord_api
from tests.servers.telegram_api import telegram_api

CHATS = ["800000000000000011", "800000000000000012"]


@dataclass(frozen=True)
class Feed:
    """One platform: what to set, how people write there, and how it tells something again or tells nonsense."""

    origin: str
    section: dict[str, Any]
    say: Callable[[int, str, str], object]
    repeat: Callable[[], object]
    nonsense: Callable[[], object]
    source_id: Callable[[int, str], str]

    def adapters(self, **more: Any) -> dict[str, Any]:
        return {self.origin: self.section, "typing": False, **more}


@contextmanager
def telegram_feed() -> Iterator[Feed]:
    with telegram_api(BOT_TOKEN) as api:
        told: list[dict[str, Any]] = []

        def say(number: int, text: str, chat: str) -> None:
            told.append(telegram_update(Said(number, text=text, chat=chat)))
            api.post(told[-1])

        def nonsense() -> None:
            number = 950_000 + len(told)
            api.post({"update_id": number}, {"update_id": number + 1, "message": {"message_id": [], "chat": 5}})

        def repeat() -> None:
            # Under numbers of their own, as after a restart of Telegram's.
            api.post(*({**update, "update_id": 960_000 + place} for place, update in enumerate(told)))

        section = {"bot_token": BOT_TOKEN, "base_url": api.url, "poll_seconds": 1, "backoff_seconds": [0.01]}
        yield Feed("telegram", section, say, repeat, nonsense, lambda number, chat: f"{BOT}:{chat}:{number}")


@contextmanager
def discord_feed() -> Iterator[Feed]:
    with discord_api() as api:
        for chat in CHATS:
            api.add_channel(chat)

        def say(number: int, text: str, chat: str) -> None:
            api.say(text, channel=chat, number=discord.FIRST_MESSAGE + number)

        def repeat() -> None:
            for messages in api.messages.values():
                for message in messages:
                    api.dispatch("MESSAGE_CREATE", api.live(message))

        def nonsense() -> None:
            for payload in ({}, {"id": "17", "channel_id": CHATS[0], "author": 5, "content": ["x"]}, {"channel_id": 5}):
                api.dispatch("MESSAGE_CREATE", payload)

        section = {"bot_token": discord.BOT_TOKEN, "base_url": api.url, "backoff_seconds": [0.01]}
        yield Feed("discord", section, say, repeat, nonsense, lambda number, chat: str(discord.FIRST_MESSAGE + number))


FEEDS = {"telegram": telegram_feed, "discord": discord_feed}
