"""A bell between processes on one SQLite file, which wakes whoever hears it and leaves nothing behind."""

import asyncio
import errno
import select
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from pillarbox import Pillarbox
from pillarbox.hooks.model import HookEvent
from pillarbox.storage import doorbell
from pillarbox.storage.doorbell import Doorbell

PATIENCE = 30.0

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has names of that kind")


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "box.db"
    path.touch()
    return str(path)


@pytest.fixture
def here(file: str) -> Iterator[Doorbell]:
    with closing(Doorbell(file)) as opened:
        yield opened


@pytest.fixture
def there(file: str) -> Iterator[Doorbell]:
    with closing(Doorbell(file)) as opened:
        yield opened


def rung(bell: Doorbell, *, within: float = 0) -> bool:
    heard = bell.hear()
    assert heard is not None
    return bool(select.select([heard], [], [], within)[0])


def test_a_ring_is_heard_until_it_is_taken_note_of(here: Doorbell, there: Doorbell) -> None:
    assert not rung(here)
    there.ring()
    there.ring()
    assert rung(here, within=PATIENCE)
    here.silence()
    assert not rung(here)


def test_one_who_came_later_is_heard_of_soon(here: Doorbell, there: Doorbell, monkeypatch: pytest.MonkeyPatch) -> None:
    there.ring()
    here.hear()
    there.ring()
    assert not rung(here)
    monkeypatch.setattr(doorbell, "_PROBE_SECONDS", 0)
    there.ring()
    assert rung(here, within=PATIENCE)


def test_nobody_rings_for_themselves(here: Doorbell) -> None:
    here.hear()
    here.ring()
    assert not rung(here)


def test_who_does_not_listen_holds_nobody_up(here: Doorbell, there: Doorbell) -> None:
    here.hear()
    for _ in range(5000):
        there.ring()
    assert rung(here)
    here.silence()
    there.ring()
    assert rung(here, within=PATIENCE)


def test_another_file_has_another_bell(here: Doorbell, tmp_path: Path) -> None:
    (tmp_path / "other.db").touch()
    here.hear()
    with closing(Doorbell(str(tmp_path / "other.db"))) as other:
        other.ring()
    assert not rung(here)


def test_a_place_is_free_again_when_its_owner_has_gone(file: str) -> None:
    with ExitStack() as opened:
        bells = [opened.enter_context(closing(Doorbell(file))) for _ in range(9)]
        assert [bell.hear() is None for bell in bells] == [False] * 8 + [True]
    with closing(Doorbell(file)) as bell:
        assert bell.hear() is not None


def test_who_has_no_descriptors_left_hears_nothing(here: Doorbell, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(doorbell, "_datagrams", refuse)
    assert here.hear() is None


def test_there_is_none_of_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert Doorbell.of(str(tmp_path / "nothing")) is None


async def test_rings_of_strangers_are_borne(sqlite_url: str) -> None:
    heard: asyncio.Queue[int] = asyncio.Queue()
    async with Pillarbox.open(sqlite_url) as box, Pillarbox.open(sqlite_url) as other:
        await box.sessions.open(session_id="s", target={"kind": "none"})

        @box.hooks.on()
        async def listen(event: HookEvent) -> None:
            heard.put_nowait(event.id)

        running = asyncio.create_task(box.run())
        with closing(Doorbell(sqlite_url.removeprefix("sqlite:///"))) as stranger:
            for _ in range(20):
                for _ in range(50):
                    stranger.ring()
                stored = await other.hooks.post("s", "agent_stop")
                assert await asyncio.wait_for(heard.get(), PATIENCE) == stored.id
        box.stop()
        await running
