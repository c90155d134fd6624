"""The guide's own adapter, taken from the page as a reader would."""

import asyncio
import importlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType

import pytest
from aiohttp import web

from pillarbox.box import Pillarbox
from pillarbox.inbound import InboundMessage
from pillarbox.settings import load_settings
from tests.api.running import working
from tests.docs.pages import ROOT, blocks_of

GUIDE = ROOT / "docs" / "guides" / "adding-an-adapter.md"


@pytest.fixture
def main(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that the guide says to run."""
    for block in blocks_of(GUIDE):
        (tmp_path / block.detail).write_text(block.text)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("brieftaube", "main"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("main")


class Lofts:
    """The platform: letters by number, and how often it was asked."""

    def __init__(self) -> None:
        self.url = ""
        self.letters: list[dict[str, object]] = []
        self.asked: list[int] = []

    async def answer(self, request: web.Request) -> web.Response:
        after = int(request.query["after"])
        self.asked.append(after)
        numbered = [letter for letter in self.letters if isinstance(letter["number"], int) and letter["number"] > after]
        return web.json_response({"letters": numbered[:2]})


@pytest.fixture
async def lofts() -> AsyncIterator[Lofts]:
    opened, app = Lofts(), web.Application()
    app.router.add_get("/letters", opened.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    opened.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield opened
    await runner.cleanup()


async def rows(box: Pillarbox, count: int) -> list[InboundMessage]:
    async with asyncio.timeout(20):
        while True:
            if len(found := await box.inbound.list()) >= count:
                return found
            await asyncio.sleep(0.01)


async def test_it_stores_each_letter_once_and_goes_on_where_it_was(
    main: ModuleType, sqlite_url: str, lofts: Lofts
) -> None:
    lofts.letters = [
        {"number": 1, "loft": "east", "from": "Ann", "text": "Hello."},
        {"number": 2, "loft": "east", "text": None},
        {"number": 3, "loft": "west", "text": "And you?"},
    ]
    async with Pillarbox.open(sqlite_url, settings=load_settings(environ={})) as box:
        main.add_brieftaube(box, lofts.url)
        async with working(box):
            found = await rows(box, 2)
    assert [(row.session_id, row.content, row.actor_name) for row in found] == [
        ("brieftaube:east", "Hello.", "Ann"),
        ("brieftaube:west", "And you?", None),
    ]
    lofts.letters.append({"number": 4, "loft": "east", "text": "Still there?"})
    lofts.asked.clear()
    async with Pillarbox.open(sqlite_url, settings=load_settings(environ={})) as box:
        main.add_brieftaube(box, lofts.url)
        async with working(box):
            assert [row.content for row in await rows(box, 3)] == ["Hello.", "And you?", "Still there?"]
    assert lofts.asked[0] == 3
