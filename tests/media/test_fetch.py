"""Files are asked for as each platform documents, within bounds, and with secrets that go nowhere else."""

from collections.abc import AsyncIterator, Iterator

import pytest

from pillarbox.media.fetch import Fetcher
from pillarbox.media.model import Gone, MediaPolicy, NotNow, Platform, Reference
from pillarbox.outbound.client import Client
from tests.servers.scripted import Scripted, scripted


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted() as server:
        yield server


@pytest.fixture
async def fetcher(server: Scripted) -> AsyncIterator[Fetcher]:
    client = Client()
    names = ("telegram", "whatsapp", "slack", "discord")
    platforms = {name: Platform(server.url, f"token-of-{name}", frozenset({server.url})) for name in names}
    yield Fetcher(client, platforms, MediaPolicy(max_bytes=1000, fetch_timeout=10))
    await client.close()


async def test_telegram_is_asked_for_a_path_and_then_for_the_file(server: Scripted, fetcher: Fetcher) -> None:
    server.answers["GET /bottoken-of-telegram/getFile"] = 200, {"ok": True, "result": {"file_path": "voice/file 1.oga"}}
    server.answers["GET /file/bottoken-of-telegram/voice/file%201.oga"] = 200, b"sound"
    assert await fetcher.fetch(Reference("telegram", file_id="AwAC/+=")) == b"sound"
    assert server.asked[0].path.endswith("?file_id=AwAC%2F%2B%3D")


async def test_whatsapp_tells_an_address_that_is_asked_with_the_same_token(server: Scripted, fetcher: Fetcher) -> None:
    server.answers["GET /77"] = lambda asked: (200, {"url": f"{server.url}/media", "mime_type": "audio/ogg"})
    server.answers["GET /media"] = 200, b"sound"
    assert await fetcher.fetch(Reference("whatsapp", file_id="77")) == b"sound"
    assert [asked.headers["authorization"] for asked in server.asked] == ["Bearer token-of-whatsapp"] * 2


async def test_slacks_token_goes_to_slack_alone(server: Scripted, fetcher: Fetcher) -> None:
    server.answers["GET /files/a"] = 200, b"file"
    assert await fetcher.fetch(Reference("slack", url=f"{server.url}/files/a")) == b"file"
    assert server.asked[0].headers["authorization"] == "Bearer token-of-slack"
    for url in ("https://slack.com.example.org/a", "https://notslack.com/a", "https://example.org/slack.com"):
        with pytest.raises(Gone, match="does not lie at Slack"):
            await fetcher.fetch(Reference("slack", url=url))


async def test_slacks_page_to_log_in_is_not_taken_for_the_file(server: Scripted, fetcher: Fetcher) -> None:
    server.answers["GET /files/a"] = 200, b"<!DOCTYPE html><title>Slack</title>"
    with pytest.raises(NotNow, match="files:read"):
        await fetcher.fetch(Reference("slack", url=f"{server.url}/files/a", mime="image/png"))


async def test_discord_tells_a_new_address_when_the_old_one_has_expired(server: Scripted, fetcher: Fetcher) -> None:
    server.answers["GET /old"] = 404, b""
    server.answers["GET /fresh"] = 200, b"file"
    attachments = [{"id": "8", "url": "https://example.org"}, {"id": "9", "url": f"{server.url}/fresh"}]
    server.answers["GET /channels/5/messages/6"] = 200, {"attachments": attachments}
    wanted = Reference("discord", url=f"{server.url}/old", file_id="9", channel_id="5", message_id="6")
    assert await fetcher.fetch(wanted) == b"file"
    assert server.asked_for("/channels/5/messages/6")[0].headers["authorization"] == "Bot token-of-discord"
    assert "authorization" not in server.asked_for("/fresh")[0].headers


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/x", "https://169.254.169.254/latest", "https://10.0.0.1/", "file:///etc"]
)
async def test_an_address_that_somebody_tells_is_guarded(fetcher: Fetcher, url: str) -> None:
    with pytest.raises(Gone):
        await fetcher.fetch(Reference("webhook", url=url))
    with pytest.raises(Gone):
        await fetcher.fetch(Reference("discord", url=url))


async def test_a_file_that_is_too_large_is_not_fetched(server: Scripted, fetcher: Fetcher) -> None:
    server.answers["GET /a"] = 200, b"x" * 1001
    with pytest.raises(Gone, match="larger than"):
        await fetcher.fetch(Reference("discord", url=f"{server.url}/a"))
    with pytest.raises(Gone, match="larger than"):
        await fetcher.fetch(Reference("discord", url=f"{server.url}/never-asked", size=1001))
    assert not server.asked_for("/never-asked")


@pytest.mark.parametrize(("status", "kind"), [(500, NotNow), (429, NotNow), (503, NotNow), (410, Gone), (302, Gone)])
async def test_troubles_that_pass_are_told_from_those_that_do_not(
    server: Scripted, fetcher: Fetcher, status: int, kind: type[Exception]
) -> None:
    server.answers["GET /files/a"] = status, b""
    with pytest.raises(kind, match=str(status)):
        await fetcher.fetch(Reference("slack", url=f"{server.url}/files/a"))


async def test_nothing_is_asked_without_a_token(server: Scripted) -> None:
    client = Client()
    fetcher = Fetcher(client, {"telegram": Platform(server.url)}, MediaPolicy())
    with pytest.raises(Gone, match=r"adapters\.telegram\.bot_token"):
        await fetcher.fetch(Reference("telegram", file_id="x"))
    assert not server.asked
    await client.close()
