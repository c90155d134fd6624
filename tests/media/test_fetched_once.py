"""A file that lies here is not asked for again, whatever becomes of the deliveries and of the platform."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pillarbox.box import Pillarbox
from pillarbox.inbound import InboundMessage
from pillarbox.inbound.adapter import Received
from pillarbox.settings import load_settings
from tests.media.test_stage import Desk
from tests.servers.daemon import key_for
from tests.servers.scripted import Scripted, scripted


@pytest.fixture
def meta() -> Iterator[Scripted]:
    """WhatsApp's servers, which tell no sizes."""
    with scripted() as meta:
        for name in ("M1", "M2"):
            meta.answers[f"GET /{name}"] = 200, {"url": f"{meta.url}/file-{name}"}
            meta.answers[f"GET /file-{name}"] = 200, f"content of {name}".encode()
        yield meta


@asynccontextmanager
async def desk_at(url: str, meta: Scripted, folder: Path) -> AsyncIterator[Desk]:
    adapters = {
        "whatsapp": {"access_token": "t", "base_url": meta.url},
        "default_target": {"kind": "python", "name": "agent"},
    }
    settings = load_settings(environ=key_for(url), adapters=adapters, media={"folder": str(folder)})
    async with Pillarbox.open(url, settings=settings, node="here") as box:
        desk = Desk(box)

        @box.inbound.target("agent")
        async def agent(message: InboundMessage) -> None:
            if desk.refuse:
                desk.refuse -= 1
                raise RuntimeError("not now")
            desk.given.append(message)

        yield desk


def sent(*more: str) -> Received:
    payload = {"file_id": "M1", "kind": "document", "mime": "application/pdf", "sha256": "abc", "name": "a.pdf"}
    others = [{"file_id": name, "name": f"{name}.pdf"} for name in more]
    return Received(
        origin="whatsapp",
        channel_id="15551234567",
        content="",
        message_type="file",
        payload=payload | ({"more_files": others} if others else {}),
        source_message_id="w1",
    )


def contents_of(message: InboundMessage) -> list[bytes]:
    payload = json.loads(message.payload_json or "")
    return [Path(each["path"]).read_bytes() for each in (payload, *payload.get("more_files", []))]


def refuse_all(meta: Scripted, status: int) -> None:
    for path in list(meta.answers):
        meta.answers[path] = status, {}


@pytest.mark.parametrize("status", [503, 404])
async def test_a_second_delivery_does_without_the_platform(
    sqlite_url: str, meta: Scripted, tmp_path: Path, status: int
) -> None:
    async with desk_at(sqlite_url, meta, tmp_path / "media") as desk:
        desk.refuse = 1
        await desk.box.adapters.take(sent())
        await desk.attempt()
        asked = len(meta.asked)
        refuse_all(meta, status)
        await desk.attempt()
        (given,) = desk.given
        assert contents_of(given) == [b"content of M1"]
        assert "trouble" not in json.loads(given.payload_json or "")
        assert len(meta.asked) == asked


async def test_of_several_files_those_that_are_here_stay_while_another_is_waited_for(
    sqlite_url: str, meta: Scripted, tmp_path: Path
) -> None:
    async with desk_at(sqlite_url, meta, tmp_path / "media") as desk:
        second, meta.answers["GET /M2"] = meta.answers["GET /M2"], (503, {})
        await desk.box.adapters.take(sent("M2"))
        await desk.attempt()
        assert desk.given == []
        meta.answers |= {"GET /M1": (404, {}), "GET /M2": second}
        await desk.attempt()
        (given,) = desk.given
        assert contents_of(given) == [b"content of M1", b"content of M2"]
