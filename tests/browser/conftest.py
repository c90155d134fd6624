"""One daemon and one Chromium for all tests of a worker; every test has a browser of its own kind: empty, signed in, watched."""

import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright, expect

from tests.browser.listener import Listener
from tests.browser.watched import FLAGS, Watched, sign_in
from tests.conftest import skip_or_fail
from tests.servers.daemon import Daemon
from tests.servers.postgres import ServerMissing

# The machine may be busy with other tests.
expect.set_options(timeout=60_000)
CHANNELS = ("email", "sms", "push", "webhook")


@pytest.fixture(scope="session")
def listener() -> Iterator[Listener]:
    with Listener() as started:
        yield started


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory, listener: Listener) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("browser")
    settings = {
        "outbound.providers": {channel: {"provider": "sandbox"} for channel in CHANNELS},
        "outbound.backoff_base_seconds": 600,
        "inbound.backoff_seconds": [600],
        "hooks.forward_url": listener.url,
        "log.level": "error",
    }
    with Daemon(f"sqlite:///{folder / 'pillarbox.db'}", "--node", "mill-1", settings=settings) as started:
        yield started


@pytest.fixture(scope="session")
def cookie(daemon: Daemon) -> str:
    """What a browser that signed in has."""
    return sign_in(daemon)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        skip_or_fail(ServerMissing("Chromium is not installed; scripts/servers.sh installs it."))
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        await browser.close()


Open = Callable[..., Awaitable[Watched]]


@pytest_asyncio.fixture(loop_scope="session")
async def open_page(chromium: Browser, daemon: Daemon, cookie: str) -> AsyncIterator[Open]:
    """Opens a signed-in page in a context of its own; at the end none of them may have complained or called anybody else."""
    opened: list[Watched] = []

    async def open_one(*, dark: bool = False, phone: bool = False, quiet: bool = True) -> Watched:
        watched = await Watched.open(chromium, daemon, cookie, dark=dark, phone=phone)
        watched.must_be_quiet = quiet
        opened.append(watched)
        return watched

    yield open_one
    for watched in opened:
        await watched.close()


@pytest_asyncio.fixture(loop_scope="session")
async def page(open_page: Open) -> Watched:
    return await open_page()


@pytest.fixture(scope="session")
def pictures() -> Path:
    """Where the documentation's pictures are kept, when they are taken."""
    folder = os.environ.get("PILLARBOX_TEST_PICTURES")
    if not folder:
        pytest.skip("`make pictures` takes the pictures.")
    return Path(folder)
