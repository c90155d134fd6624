"""The media folder: never more in it than it may hold, and nothing that nobody needs for longer than a day."""

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pillarbox.errors import SettingsError
from pillarbox.inbound.attachment import described
from pillarbox.media import room
from pillarbox.media.model import NotNow
from pillarbox.settings import load_settings
from tests.media.test_stage import desk_at
from tests.servers.telegram_api import TelegramApi, telegram_api

TOKEN = "123456:a-token-of-the-tests"


@pytest.fixture
def api() -> Iterator[TelegramApi]:
    with telegram_api(TOKEN) as api:
        yield api


def files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def age(folder: Path, seconds: float) -> None:
    """Let everything there have been written so long ago."""
    then = time.time() - seconds
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (then, then))


async def test_while_the_folder_is_full_a_message_waits_and_then_arrives(
    sqlite_url: str, api: TelegramApi, tmp_path: Path
) -> None:
    folder = tmp_path / "media"
    api.files |= {"f1": b"x" * 3000, "f2": b"y" * 3000}
    numbers: dict[str, Any] = {"max_bytes": 4000, "max_total_bytes": 5000, "retention_days": 1e-10}
    async with desk_at(sqlite_url, api, folder=str(folder), **numbers) as desk:
        await desk.take("file", "f1", name="a.txt")
        await desk.attempt()
        await desk.take("file", "f2", name="b.txt", channel_id="43")
        await desk.attempt()
        (waiting,) = await desk.box.inbound.list(status="failed")
        assert (waiting.last_error or "").startswith("The media folder is full: media.max_total_bytes is ")
        assert len(desk.given) == 1
        assert sum(path.stat().st_size for path in files_in(folder)) <= 5000
        await desk.box.media.prune()
        await desk.attempt()
        assert len(desk.given) == 2, "nothing was lost"


async def test_a_folder_that_stays_full_keeps_nobody_from_being_heard(
    sqlite_url: str, api: TelegramApi, tmp_path: Path
) -> None:
    api.files |= {"f1": b"x" * 3000, "f2": b"y" * 3000}
    numbers: dict[str, Any] = {"max_bytes": 4000, "max_total_bytes": 5000, "transcription": {"attempts": 2}}
    async with desk_at(sqlite_url, api, folder=str(tmp_path / "media"), **numbers) as desk:
        await desk.take("file", "f1", name="a.txt")
        await desk.attempt()
        await desk.take("file", "f2", name="b.txt")
        await desk.take("text", "none", content="what was said behind it")
        await desk.attempt()
        assert len(desk.given) == 1
        await desk.attempt()
        _, late, text = desk.given
        assert described(late.message_type, late.content, late.payload_json) == "File: b.txt (the media folder is full)"
        assert text.content == "what was said behind it"


async def test_one_chat_that_sends_much_leaves_room_for_the_others(
    sqlite_url: str, api: TelegramApi, tmp_path: Path
) -> None:
    api.files |= {f"f{number}": bytes([number]) * 1000 for number in range(8)}
    numbers: dict[str, Any] = {"max_bytes": 1000, "max_total_bytes": 8000, "transcription": {"attempts": 1}}
    async with desk_at(sqlite_url, api, folder=str(tmp_path / "media"), **numbers) as desk:
        for number in range(6):
            await desk.take("file", f"f{number}", name=f"{number}.txt")
            await desk.attempt()
        for number in (6, 7):
            await desk.take("file", f"f{number}", name=f"{number}.txt", channel_id="43")
            await desk.attempt()
        told = [described(each.message_type, each.content, each.payload_json) for each in desk.given]
    without = [text.partition(" ")[2] for text in told if text.endswith("(the media folder is full)")]
    assert without == ["4.txt (the media folder is full)", "5.txt (the media folder is full)"]


async def test_the_content_of_a_message_that_has_just_ended_is_no_leftover(
    sqlite_url: str, api: TelegramApi, tmp_path: Path
) -> None:
    folder = tmp_path / "media"
    api.files["f1"] = b"content"
    async with desk_at(sqlite_url, api, folder=str(folder)) as desk:
        await desk.take("file", "f1", name="a.txt")
        await desk.attempt()
        await asyncio.to_thread((folder / "by-message" / "1.json").unlink)
        await asyncio.to_thread(age, folder, 90_000)
        while await desk.box.media.sweep():
            pass
        assert len([*folder.rglob("a.txt")]) == 1


async def test_what_another_process_put_there_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = room.Room(tmp_path, 5000)
    own.take(1000)
    (tmp_path / "theirs").write_bytes(b"z" * 4500)
    own.take(1000)
    monkeypatch.setattr(room, "_COUNT_EVERY", -1.0)
    with pytest.raises(NotNow, match=r"media\.max_total_bytes"):
        own.take(1000)
    (tmp_path / "theirs").unlink()
    monkeypatch.setattr(room, "_COUNT_WHEN_FULL_EVERY", -1.0)
    own.take(1000)


def test_a_folder_that_could_not_hold_one_file_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"media\.max_total_bytes must not be less than media\.max_bytes"):
        load_settings(environ={}, media={"max_bytes": 1000, "max_total_bytes": 999})


async def test_what_a_crash_left_goes_after_a_day_and_what_somebody_needs_stays(
    sqlite_url: str, api: TelegramApi, tmp_path: Path
) -> None:
    folder = tmp_path / "media"
    api.files |= {name: name.encode() for name in ("needed", "crashed", "shared")}
    async with desk_at(sqlite_url, api, folder=str(folder), retention_days=1e-10) as desk:

        async def sweep() -> set[str]:
            while await desk.box.media.sweep():
                pass
            return {path.name for path in files_in(folder) if ".for" not in path.parts and path.suffix != ".json"}

        for name in ("needed", "crashed", "shared", "shared-again"):
            api.files.setdefault(name, b"shared")
            await desk.take("file", name, name=f"{name.removesuffix('-again')}.txt")
            await desk.attempt()
        second, third = (await desk.box.inbound.list())[1:3]
        # As after a crash between the content and the note of it; and a piece of a file, and a removal that broke off.
        for crashed in (second, third):
            (folder / "by-message" / f"{crashed.id}.json").unlink()
        (folder / "by-message" / f".17.json.99.{'ab' * 4}").touch()
        gone = folder / ".gone-abc-99"
        gone.mkdir()
        (gone / "half.txt").write_bytes(b"gone")
        assert await sweep() >= {"needed.txt", "crashed.txt", "shared.txt", "half.txt"}, "a day is not over"
        age(folder, 90_000)
        assert await sweep() == {"needed.txt", "shared.txt"}
        assert not gone.exists()
        assert not [*(folder / "by-message").glob(".*")]


async def test_the_content_of_a_message_that_still_waits_is_no_leftover(
    sqlite_url: str, api: TelegramApi, tmp_path: Path
) -> None:
    folder = tmp_path / "media"
    api.files["f1"] = b"content"
    async with desk_at(sqlite_url, api, folder=str(folder)) as desk:
        desk.refuse = 1
        await desk.take("file", "f1", name="a.txt")
        await desk.attempt()
        await asyncio.to_thread((folder / "by-message" / "1.json").unlink)
        await asyncio.to_thread(age, folder, 90_000)
        while await desk.box.media.sweep():
            pass
        assert len([*folder.rglob("a.txt")]) == 1
        await desk.attempt()
        assert len(desk.given) == 1
