from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import apsw
import psycopg
import pytest

from pillarbox.api.answers import Answer
from pillarbox.api.app import Api, create_app
from pillarbox.api.call import Call, Endpoint
from pillarbox.box import Pillarbox
from pillarbox.settings import load_settings
from tests.api.client import ADMIN_KEY, Client

TARGET = {"kind": "python", "name": "nobody"}


@pytest.fixture
async def box(database_url: str) -> AsyncIterator[Pillarbox]:
    impatient = {"busy_timeout_seconds": 0.05, "statement_timeout_seconds": 0.2}
    settings = load_settings(environ={}, database=impatient)
    async with Pillarbox.open(database_url, settings=settings) as opened:
        yield opened


@contextmanager
def unwritable(url: str) -> Iterator[None]:
    """Another process holds what every write needs."""
    if url.startswith("sqlite"):
        holder = apsw.Connection(url.removeprefix("sqlite:///"))
        holder.execute("BEGIN EXCLUSIVE")
        yield
        holder.execute("ROLLBACK")
        holder.close()
        return
    with psycopg.connect(url) as connection:
        connection.execute("LOCK TABLE commit_mark IN EXCLUSIVE MODE")
        yield


async def test_health_needs_no_key(client: Client) -> None:
    stranger = client.with_key(None)
    assert (await stranger.get("/healthz")).json() == {"status": "ok"}
    assert (await stranger.get("/readyz")).json() == {"status": "ready"}
    assert (await stranger.request("HEAD", "/readyz")).status == 200
    assert (await client.get("/v1/keys")).json()["items"] == []


async def test_a_database_that_takes_no_writes_is_503_and_recovers(client: Client, database_url: str) -> None:
    opened = await client.post("/v1/sessions", {"session_id": "s1", "target": TARGET})
    assert opened.status == 201
    with unwritable(database_url):
        unready = await client.get("/readyz")
        assert (unready.status, unready.json()) == (503, {"status": "unavailable", "reason": "busy"})
        assert (await client.get("/healthz")).status == 200
        refused = await client.post("/v1/inbound", {"session_id": "s1", "origin": "t", "content": "x"})
        assert (refused.status, refused.reason, refused.headers["retry-after"]) == (503, "unavailable", "1")
    assert (await client.get("/readyz")).status == 200
    assert (await client.get("/v1/inbound")).json()["items"] == []


async def test_status_counts_what_waits(client: Client) -> None:
    empty = {"pending": 0, "processing": 0, "failed": 0, "oldest_age_seconds": None}
    assert (await client.get("/v1/status")).json() == {
        "inbound": empty,
        "hooks": empty | {"dead": 0, "spooled": 0, "spool_age_seconds": None, "broken": 0},
        "outbound": empty | {"failed_for_good": 0},
        "inbox": {"leased": 0, "free": 0, "processed": 0},
    }
    await client.post("/v1/sessions", {"session_id": "s1", "target": TARGET})
    await client.post("/v1/inbound", {"session_id": "s1", "origin": "t", "content": "x"})
    waiting = (await client.get("/v1/status")).json()["inbound"]
    assert waiting["pending"] == 1
    assert 0 <= waiting["oldest_age_seconds"] < 60


async def test_metrics_are_for_admins_unless_they_are_public(client: Client, box: Pillarbox) -> None:
    assert (await client.with_key(None).get("/metrics")).status == 401
    scraped = await client.get("/metrics")
    assert scraped.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert b"pillarbox_inbound_queue_length 0.0" in scraped.body
    assert b'route="/metrics"' in (await client.get("/metrics")).body
    box.settings = load_settings(environ={}, metrics={"public": True})
    public = Client(create_app(box, admin_key=ADMIN_KEY), key=None)
    assert (await public.get("/metrics")).status == 200


async def test_metrics_carry_no_text_of_a_caller(client: Client) -> None:
    for path in ("/v1/sessions/canary", "/canary", "/v1/inbound?session_id=canary"):
        await client.get(path)
    await client.request("CANARY", "/v1/sessions")
    assert b"canary" not in (await client.get("/metrics")).body.lower()


async def test_a_bug_is_500_and_only_its_kind_is_logged(box: Pillarbox, caplog: pytest.LogCaptureFixture) -> None:
    async def stumble(call: Call) -> Answer:
        raise KeyError("canary")

    class Stumbling(Api):
        endpoints = (Endpoint("GET", "/stumble", stumble, "Fails", {}),)

    reply = await Client(Stumbling(box, admin_key=ADMIN_KEY)).get("/stumble")
    assert (reply.status, reply.reason) == (500, "internal")
    assert b"canary" not in reply.body
    assert "KeyError" in caplog.text
    assert "canary" not in caplog.text
