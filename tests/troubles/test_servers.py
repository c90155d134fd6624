"""PostgreSQL servers that are too busy, or not fit to keep messages."""

import asyncio
import time

import psycopg
import pytest

from pillarbox.box import Pillarbox
from pillarbox.errors import DatabaseBusy, UnsafeDatabase
from pillarbox.settings import Settings
from pillarbox.settings.tree import Database
from pillarbox.storage.postgres import PostgresDatabase
from tests.servers.daemon import Daemon
from tests.servers.postgres import PostgresServer

CLIENTS = 200


def settings(busy: float) -> Settings:
    return Settings(database=Database(pool_size=2, busy_timeout_seconds=busy))


async def test_two_connections_serve_two_hundred_clients(postgres_url: str) -> None:
    async with Pillarbox.open(postgres_url, settings=settings(20)) as box:
        await asyncio.gather(
            *(
                box.sessions.open(session_id=f"s{n}", target={"kind": "http", "url": "http://127.0.0.1:9/"})
                for n in range(CLIENTS)
            )
        )
        stored = await asyncio.gather(
            *(box.inbound.enqueue(session_id=f"s{n}", origin="t", content="x") for n in range(CLIENTS))
        )
        assert len({each.id for each in stored}) == CLIENTS


async def test_who_finds_no_connection_hears_so_in_time_and_the_others_go_on(postgres_url: str) -> None:
    async with Pillarbox.open(postgres_url, settings=settings(1)) as box:
        await box.sessions.open(session_id="s", target={"kind": "http", "url": "http://127.0.0.1:9/"})
        with psycopg.connect(postgres_url) as blocker:
            blocker.execute("LOCK TABLE sessions IN ACCESS EXCLUSIVE MODE")
            began = time.monotonic()
            held = [asyncio.create_task(box.sessions.get("s")) for _ in range(2)]
            waiting = await asyncio.gather(*(box.inbound.status() for _ in range(CLIENTS)), return_exceptions=True)
            assert {type(each) for each in waiting} == {DatabaseBusy}
            assert time.monotonic() - began < 50
            blocker.rollback()
        assert [session.session_id for session in await asyncio.gather(*held)] == ["s", "s"]
        assert (await box.inbound.status()).pending == 0


def test_a_server_that_can_lose_messages_is_used_only_when_that_is_said(private_postgres: PostgresServer) -> None:
    for name in ("full_page_writes", "fsync"):
        private_postgres.stop()
        with (private_postgres.data / "postgresql.conf").open("a") as configuration:
            configuration.write(f"{name} = off\n")
        private_postgres.start()
        with pytest.raises(UnsafeDatabase, match=rf"{name}=off .* database\.allow_unsafe"):
            PostgresDatabase(private_postgres.url)
    refused = Daemon(private_postgres.url, ready=None).start()
    assert refused.wait() == 1
    assert "fsync=off" in refused.logs.whole()
    with Daemon(private_postgres.url, settings={"database.allow_unsafe": "true"}) as daemon:
        assert daemon.call("GET", "/readyz")[0] == 200
