"""What people see while their message is on its way: an indicator that neither sticks nor dies early, nor gets in the way."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

from pillarbox.clock import system_clock
from pillarbox.engine import Delivered, Outcome, Retry
from pillarbox.inbound.adapters.indicators import discord_indicator, telegram_indicator, whatsapp_indicator
from pillarbox.inbound.model import InboundMessage
from pillarbox.inbound.typing import Chat, Indicator, Request, Typing

SECONDS = 20.0
CHAT = Chat("chat", "1", "m1", {})


class Sink:
    """Where indicators are shown; `answers` are given once each, and while `hangs` is set nobody is answered."""

    def __init__(self) -> None:
        self.url = ""
        self.shown: list[Any] = []
        self.answers: list[web.Response] = []
        self.hangs = asyncio.Event()
        self.hangs.set()
        self._changed = asyncio.Condition()

    async def answer(self, request: web.Request) -> web.Response:
        async with self._changed:
            self.shown.append(await request.json())
            self._changed.notify_all()
        await self.hangs.wait()
        return self.answers.pop(0) if self.answers else web.Response()

    async def expect(self, count: int) -> None:
        async with asyncio.timeout(SECONDS), self._changed:
            await self._changed.wait_for(lambda: len(self.shown) >= count)


@pytest.fixture
async def sink() -> AsyncIterator[Sink]:
    opened, app = Sink(), web.Application()
    app.router.add_post("/", opened.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    opened.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    yield opened
    opened.hangs.set()
    await runner.cleanup()


async def never(session_id: str, since: datetime) -> bool | None:
    return None


@asynccontextmanager
async def typing(
    sink: Sink,
    *,
    limit: float = 60.0,
    refresh: float = 0.01,
    per_second: float = 1000.0,
    is_over: Callable[[str, datetime], Awaitable[bool | None]] = never,
) -> AsyncIterator[Typing]:
    def request(chat: Chat) -> Request:
        return Request(sink.url, {}, json.dumps(chat.channel_id).encode())

    indicator = Indicator("chat", request, refresh_seconds=refresh, per_second=per_second)
    opened = Typing([indicator], limit=limit, is_over=is_over, clock=system_clock())
    try:
        yield opened
    finally:
        await opened.close()


def message(**fields: Any) -> InboundMessage:
    told: dict[str, Any] = dict.fromkeys(InboundMessage.__struct_fields__)
    told |= {"id": 1, "session_id": "s", "origin": "chat", "source_channel_id": "1", "content": "Hello."}
    return InboundMessage(**told | {"created_at": datetime.now(UTC)} | fields)


async def giving(outcome: Outcome) -> Outcome:
    return outcome


async def dark(shown: Typing) -> None:
    """Wait until no indicator is kept any more."""
    async with asyncio.timeout(SECONDS):
        while True:
            if shown.lit == 0:
                return
            await asyncio.sleep(0.005)


async def test_a_message_that_is_safe_shows_it_once(sink: Sink) -> None:
    async with typing(sink, refresh=60.0) as shown:
        shown.received(CHAT)
        await sink.expect(1)
        shown.received(CHAT)
        shown.received(CHAT._replace(channel_id="2"))
        await sink.expect(2)
    assert sink.shown == ["1", "2"]


async def test_it_is_refreshed_for_as_long_as_a_delivery_takes_and_not_longer(sink: Sink) -> None:
    async def slow() -> Outcome:
        await sink.expect(5)
        return Retry("not yet")

    async with typing(sink, limit=0.001) as shown:
        assert await shown.attempt(message(), slow()) == Retry("not yet")
        await dark(shown)
        seen = len(sink.shown)
        # Shown again on the next attempt.
        await shown.attempt(message(), slow_until(sink, seen + 1))
        assert len(sink.shown) > seen


async def slow_until(sink: Sink, count: int) -> Outcome:
    await sink.expect(count)
    return Retry("not yet")


async def test_after_a_delivery_it_stays_until_the_turn_is_over(sink: Sink) -> None:
    over = asyncio.Event()
    asked: list[str] = []

    async def is_over(session_id: str, since: datetime) -> bool:
        asked.append(session_id)
        return over.is_set()

    async with typing(sink, is_over=is_over) as shown:
        await shown.attempt(message(), giving(Delivered()))
        await sink.expect(4)
        over.set()
        await dark(shown)
    assert set(asked) == {"s"}


async def test_it_ends_with_the_reply(sink: Sink) -> None:
    async with typing(sink) as shown:
        await shown.attempt(message(), giving(Delivered()))
        await sink.expect(2)
        shown.replied("chat", "another")
        assert shown.lit == 1
        shown.replied("chat", "1")
        await dark(shown)


async def test_words_in_between_do_not_end_it_while_the_agent_is_known_to_work(sink: Sink) -> None:
    async def is_over(session_id: str, since: datetime) -> bool:
        return False

    async with typing(sink, is_over=is_over) as shown:
        await shown.attempt(message(), giving(Delivered()))
        shown.replied("chat", "1")
        await sink.expect(4)
        assert shown.lit == 1


async def test_it_ends_when_its_time_is_over_though_nobody_says_so(sink: Sink) -> None:
    async with typing(sink, limit=0.05) as shown:
        await shown.attempt(message(), giving(Delivered()))
        await dark(shown)


async def test_whoever_cannot_tell_whether_a_turn_is_over_does_not_end_it(sink: Sink) -> None:
    async def is_over(session_id: str, since: datetime) -> bool:
        raise OSError

    async with typing(sink, is_over=is_over) as shown:
        await shown.attempt(message(), giving(Delivered()))
        await sink.expect(3)
        assert shown.lit == 1


async def test_a_platform_that_hangs_delays_no_delivery(sink: Sink) -> None:
    sink.hangs.clear()
    async with typing(sink) as shown:
        shown.received(CHAT)
        await sink.expect(1)
        for _ in range(20):
            assert await shown.attempt(message(), giving(Delivered())) == Delivered()
    assert len(sink.shown) <= 2


async def test_what_a_delivery_raises_goes_through(sink: Sink) -> None:
    async def fail() -> Outcome:
        raise ValueError("broken")

    async with typing(sink) as shown:
        with pytest.raises(ValueError, match="broken"):
            await shown.attempt(message(), fail())
        await dark(shown)


async def test_an_indicator_with_a_fault_of_its_own_fails_no_delivery() -> None:
    def request(chat: Chat) -> Request:
        raise RuntimeError

    indicator = Indicator("chat", request, refresh_seconds=0.01, per_second=100.0)
    shown = Typing([indicator], limit=60.0, is_over=never, clock=system_clock())
    shown.received(CHAT)
    assert await shown.attempt(message(), giving(Delivered())) == Delivered()
    await dark(shown)
    await shown.close()


async def test_a_pause_that_is_asked_for_holds_every_chat_of_the_platform(sink: Sink) -> None:
    sink.answers.append(web.Response(status=429, headers={"Retry-After": "3600"}))
    async with typing(sink) as shown:
        shown.received(CHAT)
        await sink.expect(1)
        async with asyncio.timeout(SECONDS):
            while True:
                if not shown.busy:
                    break
                await asyncio.sleep(0.005)
        for number in range(2, 50):
            shown.received(CHAT._replace(channel_id=str(number)))
        await shown.attempt(message(), giving(Delivered()))
    assert sink.shown == ["1"]


async def test_a_chat_that_refuses_it_is_left_alone(sink: Sink) -> None:
    sink.answers.append(web.Response(status=403))
    async with typing(sink) as shown:
        await shown.attempt(message(), giving(Delivered()))
        await dark(shown)
    assert sink.shown == ["1"]


async def test_a_burst_stays_within_the_budget(sink: Sink) -> None:
    async with typing(sink, per_second=3.0, refresh=60.0) as shown:
        for number in range(500):
            shown.received(CHAT._replace(channel_id=str(number)))
        await sink.expect(3)
    assert 3 <= len(sink.shown) <= 5


def test_each_platform_is_asked_as_it_documents() -> None:
    asked = telegram_indicator("https://t.example", "7:token").request(Chat("telegram", "42", None, {"thread_id": 9}))
    assert asked is not None
    assert asked.url == "https://t.example/bot7:token/sendChatAction"
    assert json.loads(asked.body) == {"chat_id": "42", "action": "typing", "message_thread_id": 9}

    asked = discord_indicator("https://d.example/api/v10", "token").request(Chat("discord", "42", None, {}))
    assert asked is not None
    assert (asked.url, asked.headers["Authorization"]) == ("https://d.example/api/v10/channels/42/typing", "Bot token")
    in_thread = discord_indicator("https://d.example", "token").request(
        Chat("discord", "42", None, {"thread_id": "43"})
    )
    assert in_thread is not None
    assert in_thread.url == "https://d.example/channels/43/typing"

    asked = whatsapp_indicator("https://g.example", "token").request(
        Chat("whatsapp", "4915550001", "wamid.1", {"phone_number_id": "106"})
    )
    assert asked is not None
    assert (asked.url, asked.headers["Authorization"]) == ("https://g.example/106/messages", "Bearer token")
    assert json.loads(asked.body) == {
        "messaging_product": "whatsapp",
        "status": "read",
        "message_id": "wamid.1",
        "typing_indicator": {"type": "text"},
    }


@pytest.mark.parametrize("payload", [{}, {"phone_number_id": "../me"}, {"phone_number_id": 5}])
def test_nothing_is_asked_where_the_message_does_not_say_whom(payload: dict[str, Any]) -> None:
    assert whatsapp_indicator("https://g.example", "t").request(Chat("whatsapp", "1", "wamid.1", payload)) is None
    assert discord_indicator("https://d.example", "t").request(Chat("discord", "../me", None, {})) is None
