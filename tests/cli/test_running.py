"""What ends a process that should go on."""

import asyncio

import pytest

from pillarbox.box import Pillarbox
from pillarbox.cli.failures import Failure
from pillarbox.cli.running import keep_running
from pillarbox.errors import Unavailable
from pillarbox.settings import Settings


async def ends() -> None:
    pass


async def breaks() -> None:
    raise Unavailable("The port is gone.")


async def serves() -> None:
    await asyncio.Event().wait()


async def test_a_server_that_ends_by_itself_ends_the_process_with_a_failure(sqlite_url: str) -> None:
    async with Pillarbox.open(sqlite_url, settings=Settings()) as box:
        with pytest.raises(Failure, match="The server ended"):
            await keep_running(box, asyncio.Event(), serving=ends(), workers=True)
    async with Pillarbox.open(sqlite_url, settings=Settings()) as box:
        with pytest.raises(Unavailable, match="port is gone"):
            await keep_running(box, asyncio.Event(), serving=breaks(), workers=True)


async def test_workers_that_end_by_themselves_end_the_process_with_a_failure(sqlite_url: str) -> None:
    async with Pillarbox.open(sqlite_url, settings=Settings()) as box:
        box.stop()
        with pytest.raises(Failure, match="The workers ended"):
            await keep_running(box, asyncio.Event(), serving=serves(), workers=True)


async def test_one_that_was_told_to_stop_before_it_began_just_ends(sqlite_url: str) -> None:
    stop = asyncio.Event()
    stop.set()
    async with Pillarbox.open(sqlite_url, settings=Settings()) as box:
        await keep_running(box, stop, serving=serves(), workers=True)
