"""Messages that Telegram is asked for: confirmed only once they are on disk, however the process ends."""

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from pillarbox.box import Pillarbox
from pillarbox.settings import load_settings
from tests.adapters.platforms import BOT, BOT_TOKEN, Said, telegram_update
from tests.api.running import working
from tests.servers.daemon import Daemon
from tests.servers.telegram_api import SECONDS, TelegramApi, failure, telegram_api


@pytest.fixture
def api() -> Iterator[TelegramApi]:
    with telegram_api(BOT_TOKEN) as opened:
        yield opened


def bot(api: TelegramApi, **more: Any) -> dict[str, Any]:
    told = {"bot_token": BOT_TOKEN, "base_url": api.url, "poll_seconds": 1, "backoff_seconds": [0.01, 0.05]}
    return {"telegram": {**told, **more}}


@asynccontextmanager
async def polling(url: str, api: TelegramApi, **more: Any) -> AsyncIterator[Pillarbox]:
    settings = load_settings(environ={}, adapters=bot(api, **more), database={"busy_timeout_seconds": 0.1})
    async with Pillarbox.open(url, settings=settings, node="here") as box, working(box):
        yield box


async def all_confirmed(api: TelegramApi) -> None:
    await asyncio.to_thread(api.expect_all_confirmed)


def serve(path: Path, api: TelegramApi) -> Daemon:
    return Daemon(f"sqlite:///{path}", settings={"adapters.telegram": bot(api)["telegram"]})


def texts(daemon: Daemon) -> list[str]:
    status, answer = daemon.call("GET", "/v1/inbound?limit=1000")
    assert status == 200
    assert len({item["source_message_id"] for item in answer["items"]}) == len(answer["items"])
    return [item["content"] for item in answer["items"]]


async def test_messages_are_stored_in_order_and_then_confirmed(sqlite_url: str, api: TelegramApi) -> None:
    api.post(*(telegram_update(Said(number, text=str(number))) for number in range(1, 251)))
    async with polling(sqlite_url, api) as box:
        await all_confirmed(api)
        rows = await box.inbound.list(limit=1000)
    assert [row.content for row in rows] == [str(number) for number in range(1, 251)]
    assert rows[0].source_message_id == f"{BOT}:{Said().chat}:1"
    assert api.questions[0] == {"timeout": 1, "limit": 100, "allowed_updates": ["message"]}


async def test_an_update_that_nobody_can_read_does_not_hold_up_the_others(sqlite_url: str, api: TelegramApi) -> None:
    api.post(
        {"update_id": 1},
        {"update_id": 2, "message": "no message"},
        {"update_id": 3, "message": {"message_id": 3, "chat": {"id": 10**30}, "text": "x"}},
        {"update_id": 4, "edited_message": telegram_update(Said(4))["message"]},
        telegram_update(Said(5, text="a\0\ud800b")),
        telegram_update(Said(6, text="fine")),
    )
    async with polling(sqlite_url, api) as box:
        await all_confirmed(api)
        rows = await box.inbound.list()
    assert [row.content for row in rows] == ["a\ufffd\ufffdb", "fine"]


async def test_while_the_database_takes_nothing_nothing_is_confirmed(
    sqlite_url: str, tmp_path: Path, api: TelegramApi
) -> None:
    async with polling(sqlite_url, api) as box:
        await asyncio.to_thread(api.expect, lambda: bool(api.questions), "a question")
        with apsw.Connection(str(tmp_path / "pillarbox.db")) as other:
            other.set_busy_timeout(30_000)
            other.execute("UPDATE sessions SET title = 'held' WHERE false")
            api.post(telegram_update(Said(1)), telegram_update(Said(2)))
            asked = len(api.questions)
            await asyncio.to_thread(api.expect, lambda: len(api.questions) > asked + 3, "more questions")
            assert all("offset" not in question for question in api.questions)
        await all_confirmed(api)
        assert [row.source_message_id for row in await box.inbound.list()] == [
            f"{BOT}:{Said().chat}:1",
            f"{BOT}:{Said().chat}:2",
        ]


@pytest.mark.parametrize(
    "answer",
    [
        failure(500, "Internal Server Error"),
        failure(502, "Bad Gateway"),
        failure(401, "Unauthorized"),
        failure(
            409, "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
        ),
        failure(429, "Too Many Requests: retry after 0", retry_after=0),
        (200, b"<html>not JSON"),
        (200, {"ok": False}),
        (200, {"ok": True, "result": "none"}),
        (200, {"ok": True, "result": [None, 1, "x", {"update_id": "1"}]}),
        (302, b""),
    ],
    ids=lambda answer: str(answer[0]),
)
async def test_after_any_answer_it_asks_again(sqlite_url: str, api: TelegramApi, answer: Any) -> None:
    api.script += [answer, answer]
    api.post(telegram_update(Said()))
    async with polling(sqlite_url, api) as box:
        await all_confirmed(api)
        assert len(await box.inbound.list()) == 1


async def test_a_pause_that_telegram_asks_for_is_kept(sqlite_url: str, api: TelegramApi) -> None:
    api.script.append(failure(429, "Too Many Requests: retry after 1", retry_after=1))
    api.post(telegram_update(Said()))
    clock = asyncio.get_running_loop().time
    async with polling(sqlite_url, api):
        await asyncio.to_thread(api.expect, lambda: len(api.questions) == 1, "a question")
        before = clock()
        await asyncio.to_thread(api.expect, lambda: len(api.questions) > 1, "another question")
        assert clock() - before > 0.9


async def test_a_webhook_that_is_set_is_left_alone_and_waited_out(
    sqlite_url: str, api: TelegramApi, caplog: pytest.LogCaptureFixture
) -> None:
    api.webhook_set = True
    api.post(telegram_update(Said()))
    async with polling(sqlite_url, api) as box:
        await asyncio.to_thread(api.expect, lambda: len(api.questions) > 4, "more questions")
        api.webhook_set = False
        await all_confirmed(api)
        assert len(await box.inbound.list()) == 1
    said = [record.getMessage() for record in caplog.records if "Telegram" in record.getMessage()]
    assert len(said) == 1
    assert BOT_TOKEN not in caplog.text


async def test_two_processes_that_ask_for_one_bot_store_each_message_once(sqlite_url: str, api: TelegramApi) -> None:
    async with polling(sqlite_url, api) as box, polling(sqlite_url, api):
        for number in range(1, 41):
            api.post(telegram_update(Said(number)))
            await asyncio.sleep(0)
        await all_confirmed(api)
        assert len(await box.inbound.list(limit=1000)) == 40
        assert len(await box.sessions.list()) == 1


async def test_it_ends_with_the_box_though_a_question_is_open(sqlite_url: str, api: TelegramApi) -> None:
    async with asyncio.timeout(10):
        async with polling(sqlite_url, api, poll_seconds=300):
            await asyncio.to_thread(api.expect, lambda: bool(api.questions), "a question")


@pytest.mark.parametrize("more", [{"poll": False}, {"secret_token": "told"}])
async def test_a_bot_with_a_webhook_is_not_polled(sqlite_url: str, api: TelegramApi, more: dict[str, Any]) -> None:
    settings = load_settings(environ={}, adapters=bot(api, **more))
    async with Pillarbox.open(sqlite_url, settings=settings, node="here") as box:
        assert box.adapters.sources == []


def test_killed_before_the_commit_it_is_told_again(tmp_path: Path, api: TelegramApi) -> None:
    path = tmp_path / "pillarbox.db"
    with serve(path, api) as daemon:
        api.expect(lambda: bool(api.questions))
        with apsw.Connection(str(path)) as other:
            other.set_busy_timeout(30_000)
            other.execute("UPDATE sessions SET title = 'held' WHERE false")
            api.post(telegram_update(Said(1, text="one")), telegram_update(Said(2, text="two")))
            api.expect(lambda: api.handed_over > 0, "an answer")
            daemon.kill()
        daemon.start()
        api.expect_all_confirmed()
        assert texts(daemon) == ["one", "two"]


def test_killed_between_commit_and_confirmation_it_stores_nothing_twice(tmp_path: Path, api: TelegramApi) -> None:
    with serve(tmp_path / "pillarbox.db", api) as daemon:
        confirming, dead = threading.Event(), threading.Event()

        def lose(question: dict[str, Any]) -> None:
            """The question that confirms never arrives."""
            if "offset" in question and not dead.is_set():
                confirming.set()
                dead.wait(SECONDS)
                question.pop("offset")

        api.before_confirming = lose
        api.post(*(telegram_update(Said(number, text=str(number))) for number in range(1, 6)))
        assert confirming.wait(SECONDS)
        assert texts(daemon) == ["1", "2", "3", "4", "5"]
        daemon.kill()
        dead.set()
        asked = len(api.questions)
        daemon.start()
        api.expect_all_confirmed()
        assert "offset" not in api.questions[asked]
        assert texts(daemon) == ["1", "2", "3", "4", "5"]


@pytest.mark.slow
def test_killed_again_and_again_it_loses_nothing_and_doubles_nothing(tmp_path: Path, api: TelegramApi) -> None:
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    expected: list[str] = []
    with serve(tmp_path / "pillarbox.db", api) as daemon:
        for _ in range(8):
            for _ in range(chance.randint(1, 40)):
                number = len(expected) + 1
                expected.append(str(number))
                api.post(telegram_update(Said(number, text=str(number))))
            threading.Event().wait(chance.uniform(0, 0.05))
            daemon.kill()
            daemon.start()
        api.expect_all_confirmed()
        assert texts(daemon) == expected, f"seed {seed}"
