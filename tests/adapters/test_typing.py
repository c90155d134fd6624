"""The indicator in a real chat: lit by a receipt and by each attempt, never by what was there before, and never in the way."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from pillarbox.api.app import create_app
from pillarbox.box import Pillarbox
from pillarbox.inbound import InboundMessage
from pillarbox.settings import load_settings
from tests.adapters.platforms import BOT_TOKEN, SECRET_TOKEN, TELEGRAM, Said, telegram_body
from tests.adapters.stand import Stand
from tests.api.client import ADMIN_KEY, Client
from tests.api.running import working
from tests.servers.telegram_api import TelegramApi, telegram_api


@pytest.fixture
def api() -> Iterator[TelegramApi]:
    with telegram_api(BOT_TOKEN) as opened:
        yield opened


def adapters(api: TelegramApi, **more: Any) -> dict[str, Any]:
    section = {"bot_token": BOT_TOKEN, "secret_token": SECRET_TOKEN, "base_url": api.url}
    return {"telegram": section, "default_target": {"kind": "python", "name": "agent"}, **more}


def stand(box: Pillarbox) -> Stand:
    return Stand(box, Client(create_app(box, admin_key=ADMIN_KEY), key=None), TELEGRAM)


async def test_a_receipt_lights_it_and_a_double_or_nobodys_message_does_not(sqlite_url: str, api: TelegramApi) -> None:
    settings = load_settings(environ={}, adapters=adapters(api))
    async with Pillarbox.open(sqlite_url, settings=settings, node="here") as box:
        chat = stand(box)
        await chat.say(Said(1))
        await asyncio.to_thread(api.expect, lambda: len(api.actions) == 1, "typing")
        await chat.say(Said(1, chat="4915550001"))
        await chat.post(telegram_body(Said(2, chat="99"), new_chat_title="x"))
        await chat.say(Said(3, chat="77"))
        await asyncio.to_thread(api.expect, lambda: len(api.actions) == 2, "typing")
    told = [(action["chat_id"], action["action"]) for action in api.actions]
    assert told == [(Said().chat, "typing"), ("77", "typing")]


async def test_it_stays_lit_through_a_delivery_until_the_turn_is_over(sqlite_url: str, api: TelegramApi) -> None:
    settings = load_settings(environ={}, adapters=adapters(api))
    async with Pillarbox.open(sqlite_url, settings=settings, node="here") as box:
        taken = asyncio.Event()

        @box.inbound.target("agent")
        async def take(message: InboundMessage) -> None:
            assert box.typing.lit == 1
            taken.set()

        async with working(box):
            await stand(box).say(Said(1))
            await asyncio.wait_for(taken.wait(), 20)
            assert box.typing.lit == 1
            session_id = (await box.inbound.list())[0].session_id
            await box.hooks.post(session_id, "agent_stop", {"summary": "Done."})
            async with asyncio.timeout(20):
                while True:
                    if box.typing.lit == 0:
                        break
                    await asyncio.sleep(0.05)
    assert api.actions


async def test_switched_off_nothing_is_shown(sqlite_url: str, api: TelegramApi) -> None:
    settings = load_settings(environ={}, adapters=adapters(api, typing=False))
    async with Pillarbox.open(sqlite_url, settings=settings, node="here") as box:
        await stand(box).say(Said(1))
        assert not box.typing.busy
    assert api.actions == []
