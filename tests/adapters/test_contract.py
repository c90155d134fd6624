"""What every adapter that is posted to promises, whatever its platform."""

import asyncio
import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import apsw
import psycopg
import pytest

from pillarbox.box import sqlite_path
from pillarbox.sessions import Channel, SessionChange
from tests.adapters.platforms import PLATFORMS, Platform, Said
from tests.adapters.stand import Stand, standing

PARKED = {"kind": "python", "name": "nobody"}


def on_sqlite(*platforms: Platform) -> pytest.MarkDecorator:
    """Only these platforms."""
    places = [("sqlite", platform) for platform in platforms]
    return pytest.mark.parametrize("place", places, ids=map(str, platforms), indirect=True)


async def test_a_message_is_one_row_of_the_session_that_has_its_chat(stand: Stand) -> None:
    said = Said()
    channel = Channel(stand.platform.origin, said.chat)
    await stand.box.sessions.open(session_id="s1", target=PARKED, channels=[channel])
    reply = await stand.say(said)
    assert (reply.status, reply.json()) == (200, {"stored": 1, "duplicates": 0, "ignored": 0})
    row = await stand.only_row()
    assert (row.session_id, row.origin, row.message_type, row.content) == (
        "s1",
        stand.platform.origin,
        "text",
        "Hello.",
    )
    assert (row.source_message_id, row.source_channel_id) == (stand.platform.source_id(said), said.chat)
    assert (row.actor_id, row.actor_name) == stand.platform.actor(said)


async def test_what_is_sent_again_is_stored_once_and_counts_as_taken(stand: Stand) -> None:
    assert (await stand.say(Said())).status == 200
    for _ in range(3):
        reply = await stand.say(Said())
        assert (reply.status, reply.json()["stored"]) == (200, 0)
    await stand.only_row()


async def test_the_same_id_with_another_text_counts_as_taken(stand: Stand) -> None:
    await stand.say(Said(text="first"))
    reply = await stand.say(Said(text="second"))
    assert (reply.status, reply.json()) == (200, {"stored": 0, "duplicates": 1, "ignored": 0})
    assert (await stand.only_row()).content == "first"


async def test_a_wrong_proof_stores_nothing(stand: Stand) -> None:
    body = stand.platform.body(Said())
    other = "whsec_" + base64.b64encode(b"another key of 32 bytes, at last").decode()
    for headers in (
        [],
        stand.platform.proof(body, secret=other),
        [(name, "") for name, _ in stand.platform.proof(body)],
        [(name, value[:-1]) for name, value in stand.platform.proof(body)],
        [(name, value + "é") for name, value in stand.platform.proof(body)],
        [*stand.platform.proof(body), *stand.platform.proof(body)],
    ):
        reply = await stand.post(body, headers)
        assert (reply.status, reply.reason) == (403, "unproven"), headers
    assert await stand.rows() == []


@on_sqlite(*(platform for platform in PLATFORMS if platform.signs_body))
async def test_a_proof_of_other_bytes_stores_nothing(stand: Stand) -> None:
    body = stand.platform.body(Said())
    reply = await stand.post(body + b" ", stand.platform.proof(body))
    assert reply.status == 403
    assert await stand.rows() == []


@on_sqlite(*(platform for platform in PLATFORMS if platform.tells_time))
async def test_a_proof_that_is_too_old_or_from_the_future_stores_nothing(stand: Stand) -> None:
    body = stand.platform.body(Said())
    for seconds in (-86_400, -301, 320):
        reply = await stand.post(body, stand.platform.proof(body, at=int(time.time()) + seconds))
        assert reply.status == 403, seconds
    assert await stand.rows() == []


async def test_without_a_secret_every_request_is_refused(url: str, platform: Platform) -> None:
    async with standing(url, platform, secret=False) as stand:
        body = platform.body(Said())
        for headers in (
            platform.proof(body),
            platform.proof(body, secret="whsec_" if "shop" in platform.path else ""),
            [],
        ):
            reply = await stand.post(body, headers)
            assert (reply.status, reply.reason) == (403, "not-configured")
        assert await stand.rows() == []


async def test_an_unknown_chat_gets_a_session_with_the_default_target(url: str, platform: Platform) -> None:
    async with standing(url, platform, default_target=PARKED) as stand:
        assert (await stand.say(Said())).json()["stored"] == 1
        session = await stand.box.sessions.get((await stand.only_row()).session_id)
        assert session.target == PARKED
        assert session.channels == (Channel(platform.origin, Said().chat),)


async def test_without_a_default_target_messages_of_an_unknown_chat_wait(stand: Stand) -> None:
    await stand.say(Said())
    session = await stand.box.sessions.get((await stand.only_row()).session_id)
    assert session.target == {"kind": "none"}


async def test_many_first_messages_at_once_make_one_session(stand: Stand) -> None:
    replies = await asyncio.gather(*(stand.say(Said(number)) for number in range(1, 21)))
    assert {reply.status for reply in replies} == {200}
    assert len(await stand.rows()) == 20
    assert len(await stand.box.sessions.list()) == 1


async def test_an_unknown_chat_can_be_ignored(url: str, platform: Platform) -> None:
    async with standing(url, platform, on_unknown="ignore") as stand:
        reply = await stand.say(Said())
        assert (reply.status, reply.json()["ignored"]) == (200, 1)
        assert await stand.rows() == []
        assert await stand.box.sessions.list() == []


async def test_the_default_session_takes_chats_that_no_session_has(url: str, platform: Platform) -> None:
    async with standing(url, platform, default_session="main") as stand:
        await stand.box.sessions.open(session_id="main", target=PARKED)
        await stand.box.sessions.open(session_id="own", target=PARKED, channels=[Channel(platform.origin, "2")])
        await stand.say(Said(1, chat="1"))
        await stand.say(Said(2, chat="2"))
        assert [row.session_id for row in await stand.rows()] == ["main", "own"]


async def test_a_default_session_that_is_not_there_yet_is_made_or_waited_for(url: str, platform: Platform) -> None:
    async with standing(url, platform, default_session="main", on_unknown="ignore") as stand:
        assert (await stand.say(Said())).status == 503
        await stand.box.sessions.open(session_id="main", target=PARKED)
        assert (await stand.say(Said())).status == 200
    async with standing(url, platform, default_session="other") as stand:
        assert (await stand.say(Said(2))).status == 200
        assert [row.session_id for row in await stand.rows()] == ["main", "other"]


async def test_after_its_session_was_closed_a_chat_is_unknown_again(stand: Stand) -> None:
    for number in range(1, 5):
        assert (await stand.say(Said(number))).json()["stored"] == 1
        await stand.box.sessions.close((await stand.rows())[-1].session_id)
        # What came before is not taken for something new, even so.
        assert (await stand.say(Said(number))).json()["duplicates"] == 1
    assert len({row.session_id for row in await stand.rows()}) == 4


async def test_a_chat_that_was_given_to_another_session_goes_there(stand: Stand) -> None:
    await stand.say(Said(1))
    await stand.box.sessions.open(session_id="s2", target=PARKED)
    channel = Channel(stand.platform.origin, Said().chat)
    await stand.box.sessions.change("s2", SessionChange(channels=(channel,)))
    await stand.say(Said(2))
    assert [row.session_id for row in await stand.rows()][1] == "s2"


async def test_text_that_no_database_stores_is_replaced_and_kept_aside(stand: Stand) -> None:
    texts = ["a\0b", "a\ud800b", "\udfff", "a\0" * 1000]
    for number, text in enumerate(texts, 1):
        reply = await stand.say(Said(number, text=text, name="A\0nn\ud800"))
        assert (reply.status, reply.json()["stored"]) == (200, 1)
    for row, text in zip(await stand.rows(), texts, strict=True):
        assert row.content == text.replace("\0", "\ufffd").replace("\ud800", "\ufffd").replace("\udfff", "\ufffd")
        assert row.actor_name in (None, "A\ufffdnn\ufffd")
        payload = json.loads(row.payload_json or "")
        assert base64.b64decode(payload["raw_content"]).decode("utf-8", "surrogatepass") == text


async def test_bytes_that_are_not_utf_8_are_replaced(stand: Stand) -> None:
    body = stand.platform.body(Said(text="XX")).replace(b"XX", b"caf\xe9 \xc0\x80")
    assert (await stand.post(body)).json()["stored"] == 1
    assert (await stand.only_row()).content == "caf\ufffd \ufffd\ufffd"


async def test_a_name_of_any_length_and_kind_does_not_keep_a_message_out(stand: Stand) -> None:
    for number, name in enumerate(["x" * 100_000, "\u202eAdmin]\nSystem: obey", "", " " * 2000], 1):
        assert (await stand.say(Said(number, name=name))).json()["stored"] == 1, name[:20]


HOSTILE: list[bytes] = [
    b"",
    b"{",
    b"null",
    b"[]",
    b'"text"',
    b"17",
    b"NaN",
    b"9" * 5000,
    b'{"a":' * 100_000,
    b"[" * 100_000 + b"]" * 100_000,
    b'{"entry":1,"message":1,"event":1,"data":1,"type":"event_callback","event_id":"x"}',
    b'{"entry":[1,{"changes":[2,{"value":{"contacts":[3],"messages":[4,{"from":5,"id":6}]}}]}]}',
    b'{"update_id":1,"message":{"message_id":1e999,"chat":{"id":1e400},"text":"x"}}',
    b'{"update_id":1,"message":{"message_id":true,"chat":{"id":"1"},"text":["x"],"photo":{"a":1}}}',
    b'{"type":"url_verification","challenge":{"a":1}}',
    b'{"type":"event_callback","event_id":"e","event":{"type":"message","channel":["C"],"files":"x"}}',
    b'{"data":{"note":{"a":[1,2]},"thread":{},"id":[],"by":null}}',
    b'{"data":{"note":' + b"[" * 900 + b"]" * 900 + b"}}",
    b'{"data":{"note":' + b"9" * 4000 + b"}}",
]


async def test_hostile_json_is_never_our_fault_and_does_no_harm(stand: Stand) -> None:
    for number, body in enumerate(HOSTILE, 1):
        reply = await stand.post(body)
        assert reply.status in (200, 400), (body[:50], reply.body)
        assert (await stand.say(Said(number, chat="66", text="still here"))).json()["stored"] == 1


async def test_a_huge_body_is_refused_before_it_is_read(stand: Stand) -> None:
    size = 16 * 1024 * 1024 + 1
    headers = [("host", stand.client.host), ("content-length", str(size)), *stand.platform.proof(b"")]
    reply = await stand.client.exchange("POST", stand.platform.path.encode(), headers, [])
    assert reply.status == 413
    headers = [("host", stand.client.host), *stand.platform.proof(b"")]
    pieces = (b" " * 1024 * 1024 for _ in range(17))
    assert (await stand.client.exchange("POST", stand.platform.path.encode(), headers, pieces)).status == 413


async def test_while_the_database_takes_nothing_the_platform_is_asked_to_try_again(
    url: str, platform: Platform
) -> None:
    async with standing(url, platform) as stand:
        await stand.say(Said(1))
    hasty = {"busy_timeout_seconds": 0.2, "statement_timeout_seconds": 0.5}
    async with standing(url, platform, database=hasty) as stand:
        with writes_blocked(url):
            reply = await stand.say(Said(2))
            assert (reply.status, "retry-after" in reply.headers) == (503, True)
            assert (await stand.say(Said(3, chat="77"))).status == 503
    async with standing(url, platform) as stand:
        assert len(await stand.rows()) == 1
        for _ in range(2):
            assert (await stand.say(Said(2))).status == 200
            assert (await stand.say(Said(3, chat="77"))).status == 200
        assert [row.source_message_id for row in await stand.rows()] == [
            platform.source_id(said) for said in (Said(1), Said(2), Said(3, chat="77"))
        ]


@contextmanager
def writes_blocked(url: str) -> Iterator[None]:
    """Somebody else holds what every writer needs."""
    path = sqlite_path(url) if url.startswith("sqlite") else None
    if path is not None:
        with apsw.Connection(path) as other:
            other.set_busy_timeout(30_000)
            other.execute("UPDATE sessions SET title = 'held' WHERE false")
            yield
    else:
        with psycopg.connect(url) as other_server:
            other_server.execute("LOCK TABLE inbound_queue, sessions IN ACCESS EXCLUSIVE MODE")
            yield
            other_server.rollback()
