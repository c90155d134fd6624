"""On a server that sorts by the rules of a language, everybody has a turn and every page is whole all the same.

The server sorts Danish: `a` and `A` stand together, `ä` and `aa` behind `z`, and `aa` is in many an id.
"""

import shutil
import subprocess
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest

from pillarbox.engine import Room
from pillarbox.storage.migrate import migrate, migrations
from tests.conftest import skip_or_fail
from tests.contracts.boxes import node_at
from tests.contracts.hook_boxes import hook_node_on
from tests.contracts.notes import opened
from tests.contracts.outbound_boxes import OutboundNode, outbound_node_at
from tests.servers.postgres import Postgres, PostgresServer, ServerMissing

NAMES = ["a-b", "a_b", "a", "ab", "b", "10", "9", "aa", "0aa", "0af", "z"]
DANISH = "da_DK.utf8"
# Words of a closed list that nothing is ordered by, and a table of names that are only looked up.
UNORDERED = {("message_history", "trouble"), ("commit_mark", "writer")}


@pytest.fixture(scope="module")
def danish_server(scratch: Path) -> Iterator[Postgres]:
    folder = scratch / f"danish-{uuid.uuid4().hex}"
    (folder / "locales").mkdir(parents=True)
    if not Path("/usr/share/i18n/locales/da_DK").exists():
        skip_or_fail(ServerMissing("These tests need the sources of locales: apt-get install locales."))
    subprocess.run(["localedef", "-i", "da_DK", "-f", "UTF-8", str(folder / "locales" / DANISH)], check=True)
    server = PostgresServer(folder / "server")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCPATH", str(folder / "locales"))
        try:
            yield Postgres(server.start().url)
        except ServerMissing as missing:
            skip_or_fail(missing)
        finally:
            if server.running:
                server.stop("immediate")
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def url(danish_server: Postgres) -> str:
    name = f"pillarbox_{uuid.uuid4().hex}"
    with psycopg.connect(danish_server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 LOCALE '{DANISH}'".encode())
    return danish_server.url_of(name)


@pytest.fixture
async def outbound(url: str) -> AsyncIterator[OutboundNode]:
    async with outbound_node_at(url) as here:
        await here.tenant(*NAMES)
        yield here


async def test_one_slot_at_a_time_goes_round_all_tenants(outbound: OutboundNode) -> None:
    for tenant in NAMES:
        await outbound.put_many(tenant, 3)
    order = [(await outbound.claim(1))[0].destination for _ in range(3 * len(NAMES))]
    assert order == sorted(NAMES) * 3


async def test_nobody_is_listed_twice_or_skipped_wherever_a_turn_begins(outbound: OutboundNode) -> None:
    for tenant in NAMES:
        await outbound.put_many(tenant, 4)
    for slots in range(1, len(NAMES)):
        claimed = Counter(strand.destination for strand in await outbound.claim(slots))
        everybody = Counter(strand.destination for strand in await outbound.claim(2 * len(NAMES)))
        assert sum(claimed.values()) == slots
        assert everybody == dict.fromkeys(NAMES, 2)
        await outbound.lane.release(await outbound.lane.held_by(outbound.lease), now=outbound.now)


async def test_pages_of_tenants_are_whole_and_in_the_same_order_as_anywhere(outbound: OutboundNode) -> None:
    seen: list[str] = []
    while page := await outbound.outbound.tenants.list(limit=5, after=seen[-1] if seen else ""):
        seen += [tenant.tenant_id for tenant in page]
    assert seen == sorted(NAMES)


async def test_pages_of_sessions_are_whole_and_every_session_gets_what_is_meant_for_it(url: str) -> None:
    names = [*NAMES, "A", "B", "ä", "Å"]
    async with node_at(url) as node:
        hooks = hook_node_on(node)
        for number, name in enumerate(names):
            await node.open(name, url=f"http://{number}.example/")
            await node.put(name)
            await hooks.post(name)
        seen: list[str] = []
        while page := await node.sessions.list(limit=5, after=seen[-1] if seen else ""):
            seen += [session.session_id for session in page]
        assert seen == sorted(names)
        full = Room(1, 1, Counter({"http://nobody.example": 1}))
        messages = [strand.key for _ in names for strand in await node.claim(room=full)]
        assert sorted(messages) == sorted(names)
        assert sorted(strand.key for strand in await hooks.claim()) == sorted(names)
        await hooks.hooks.close()


async def test_whatever_is_ordered_is_ordered_by_its_bytes(url: str) -> None:
    async with node_at(url) as node:
        rows = await node.sql(
            "SELECT DISTINCT t.relname, c.attname FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid "
            "JOIN pg_attribute c ON c.attrelid = t.oid AND c.attnum = ANY(i.indkey) "
            "WHERE t.relnamespace = 'public'::regnamespace AND c.atttypid = 'text'::regtype "
            "AND c.attcollation <> (SELECT oid FROM pg_collation WHERE collname = 'C')"
        )
        assert set(rows) == UNORDERED


async def test_cockroachdb_is_spared_collations_which_are_another_type_there(url: str) -> None:
    async with opened(url) as database:
        database.cockroach = True  # type: ignore[attr-defined]
        assert await migrate(database) == [migration.name for migration in migrations("postgres")]
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'public' AND collation_name = 'C'"
        )
        assert found.fetchall() == [(0,)]
