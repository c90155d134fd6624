"""Whatever text of one session's or tenant's rows was damaged on disk, all others are served, and what it said never wrong."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from pillarbox import Email
from pillarbox.box import Pillarbox
from pillarbox.hooks.model import HookEvent
from pillarbox.inbound.model import InboundMessage
from pillarbox.storage.checksum import DAMAGED

NUMBERS = ("1", "2")

OWNERS = {
    "sessions": "session_id",
    "inbound_strand": "session_id",
    "inbound_queue": "session_id",
    "hook_strand": "session_id",
    "hook_outbox": "session_id",
    "tenants": "tenant_id",
    "message_queue": "tenant_id",
    "message_history": "tenant_id",
}
"""Each table that a delivery reads, and the column that says whose a row is."""

DAMAGES = {
    "no text": "X'C3' || {0}",
    "other text": "'!' || {0}",
    "no text within": "CAST(CAST(substr({0}, 1, 1) AS BLOB) || X'C3' || CAST(substr({0}, 3) AS BLOB) AS TEXT)",
}


class Arrivals:
    """A box's targets and listeners, and what reached them."""

    def __init__(self, box: Pillarbox) -> None:
        self.contents: list[tuple[str, str]] = []
        self.payloads: list[tuple[str, object]] = []
        self._drains = (box.inbound.drain, box.hooks.drain, box.outbound.drain)
        box.inbound.target("keep")(self.keep)
        box.hooks.on("agent_stop")(self.hear)

    async def keep(self, message: InboundMessage) -> None:
        self.contents.append((message.session_id, message.content))

    async def hear(self, event: HookEvent) -> None:
        self.payloads.append((event.session_id, event.payload))

    async def all_delivered(self) -> None:
        for drain in self._drains:
            for _ in range(4):
                await drain.step()

    def of(self, name: str) -> tuple[list[str], list[object]]:
        """What arrived as that session's: the words and the payloads."""
        return (
            [content for session_id, content in self.contents if session_id == name],
            [payload for session_id, payload in self.payloads if session_id == name],
        )


EXPECTED = {
    name: ([f"{name} {n}" for n in NUMBERS], [{"who": name, "n": n} for n in NUMBERS]) for name in ("bad", "well")
}


@pytest.fixture(scope="module")
async def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database in which two sessions and two tenants have the same waiting."""
    folder = tmp_path_factory.mktemp("filled")
    async with Pillarbox.open(f"sqlite:///{folder}/pillarbox.db") as box:
        for name in EXPECTED:
            await box.sessions.open(session_id=name, target={"kind": "python", "name": "keep"})
            await box.tenants.set(name, providers={"email": {"provider": "sandbox"}})
            for n in NUMBERS:
                await box.inbound.enqueue(
                    session_id=name, origin="test", content=f"{name} {n}", actor_name="Ann", source_message_id=name + n
                )
                await box.hooks.post(name, "tool_use", {"who": name, "n": n})
                await box.hooks.post(name, "agent_stop", {"who": name, "n": n})
                letter = Email(to=f"{name}@b.example", subject="s", text=n)
                await box.outbound.send(name, letter, idempotency_key=n)
    connection = apsw.Connection(f"{folder}/pillarbox.db")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return folder


def text_columns(file: Path, table: str) -> list[str]:
    """The columns in which the row that is going to be damaged has text."""
    connection = apsw.Connection(str(file))
    query = connection.execute(f"SELECT * FROM {table} WHERE {OWNERS[table]} = 'bad' LIMIT 1")
    names = [name for name, *_ in query.get_description()]
    ((*values,),) = query
    connection.close()
    return [name for name, value in zip(names, values, strict=True) if isinstance(value, str)]


ANOTHER_TYPE = "CAST({0} AS BLOB)"
"""What becomes of a text when the bit flips that says of what type it is."""


def damage(file: Path, table: str, column: str, how: str) -> None:
    """Change a column as a disk does, which heeds no constraint and knows no types."""
    with untyped(file, table) as connection:
        value = DAMAGES.get(how, ANOTHER_TYPE).format(column)
        connection.execute(f"UPDATE {table} SET {column} = {value} WHERE {OWNERS[table]} = 'bad'")


@contextmanager
def untyped(file: Path, table: str) -> Iterator[apsw.Connection]:
    """A connection for which a table is of no types and has no constraints, as long as it is open."""
    connection = apsw.Connection(str(file))
    typed = connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (table,)).get
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute("PRAGMA writable_schema = ON")
    for sql in (typed.replace(") STRICT, ", ") ").replace(") STRICT", ")"), typed):
        connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (sql, table))
        connection.execute("PRAGMA writable_schema = RESET")
        if sql is not typed:
            yield connection
            connection.execute("PRAGMA writable_schema = ON")
    connection.close()


@pytest.mark.parametrize("how", [*DAMAGES, "of another type"])
@pytest.mark.parametrize("table", OWNERS)
async def test_one_sessions_or_tenants_damage_is_nobody_elses(
    filled: Path, tmp_path: Path, table: str, how: str
) -> None:
    columns = text_columns(filled / "pillarbox.db", table)
    assert columns
    for column in columns:
        folder = tmp_path / column
        shutil.copytree(filled, folder)
        damage(folder / "pillarbox.db", table, column, how)
        async with Pillarbox.open(f"sqlite:///{folder}/pillarbox.db") as box:
            arrivals = Arrivals(box)
            await arrivals.all_delivered()
            assert arrivals.of("well") == EXPECTED["well"], column
            assert [each.status for each in await box.outbound.list(tenant_id="well")] == ["sent", "sent"], column
            # And what is told of the whole goes on being told.
            await box.inbound.status(), await box.hooks.status(), await box.outbound.status(), await box.checkup()
            await box.inbound.list(), await box.hooks.list(), await box.outbound.list(tenant_id="bad")
        contents, payloads = arrivals.of("bad")
        assert contents == EXPECTED["bad"][0][: len(contents)], column
        assert all(payload in EXPECTED["bad"][1] for payload in payloads), column
        assert {session_id for session_id, _ in (*arrivals.contents, *arrivals.payloads)} <= set(EXPECTED), column
        shutil.rmtree(folder)


@pytest.mark.parametrize("how", [*DAMAGES, "of another type"])
async def test_a_session_whose_target_was_damaged_says_so_and_delivers_nowhere(
    filled: Path, tmp_path: Path, how: str
) -> None:
    file = Path(shutil.copytree(filled, tmp_path / "copy")) / "pillarbox.db"
    damage(file, "sessions", "target", how)
    async with Pillarbox.open(f"sqlite:///{file}") as box:
        arrivals = Arrivals(box)
        await arrivals.all_delivered()
        first, second = await box.inbound.list(session_id="bad")
    assert arrivals.of("bad")[0] == []
    assert (first.status, second.status) == ("failed", "pending")
    assert first.last_error is not None
    assert DAMAGED in first.last_error


@pytest.mark.parametrize("column", ["providers", "settings"])
@pytest.mark.parametrize("how", [*DAMAGES, "of another type"])
async def test_nothing_goes_out_by_a_tenants_damaged_settings_and_the_message_says_why(
    filled: Path, tmp_path: Path, column: str, how: str
) -> None:
    file = Path(shutil.copytree(filled, tmp_path / "copy")) / "pillarbox.db"
    damage(file, "tenants", column, how)
    async with Pillarbox.open(f"sqlite:///{file}") as box:
        await Arrivals(box).all_delivered()
        letters = await box.outbound.list(tenant_id="bad")
    assert [each.status for each in letters] == ["failed", "failed"]
    assert {each.error_message for each in letters} == {f"{column}: {DAMAGED}"}


@pytest.mark.parametrize("how", ["no text", "of another type"])
@pytest.mark.parametrize("column", ["channel", "contacts"])
async def test_a_message_whose_place_in_the_queue_was_damaged_is_not_sent_and_says_why(
    filled: Path, tmp_path: Path, column: str, how: str
) -> None:
    file = Path(shutil.copytree(filled, tmp_path / "copy")) / "pillarbox.db"
    damage(file, "message_queue", column, how)
    async with Pillarbox.open(f"sqlite:///{file}") as box:
        await Arrivals(box).all_delivered()
        letters = await box.outbound.list(tenant_id="bad")
    assert [(each.status, each.error_message) for each in letters] == [("failed", DAMAGED)] * 2


async def test_an_event_that_became_one_of_another_type_supersedes_nothing(filled: Path, tmp_path: Path) -> None:
    file = Path(shutil.copytree(filled, tmp_path / "copy")) / "pillarbox.db"
    connection = apsw.Connection(str(file))
    connection.execute("UPDATE hook_outbox SET event_type = 'tool_use' WHERE session_id = 'bad' AND seq = 4")
    connection.close()
    async with Pillarbox.open(f"sqlite:///{file}") as box:
        await Arrivals(box).all_delivered()
        statuses = [event.status for event in await box.hooks.list(session_id="bad")]
    assert statuses == ["delivered", "delivered", "delivered", "dead"]


@pytest.mark.parametrize("time", ["'!' || created_at", "'2026-02-31' || substr(created_at, 11)"])
async def test_how_old_the_oldest_is_is_told_of_the_oldest_whose_time_can_be_read(
    filled: Path, tmp_path: Path, time: str
) -> None:
    file = Path(shutil.copytree(filled, tmp_path / "copy")) / "pillarbox.db"
    connection = apsw.Connection(str(file))
    for table in ("inbound_queue", "hook_outbox", "message_history"):
        connection.execute(f"UPDATE {table} SET created_at = {time} WHERE {OWNERS[table]} = 'bad'")
    connection.close()
    async with Pillarbox.open(f"sqlite:///{file}") as box:
        for status in (await box.inbound.status(), await box.hooks.status(), await box.outbound.status()):
            assert status.oldest_age_seconds is not None
            assert 0 < status.oldest_age_seconds < 3600


async def test_a_message_whose_content_is_gone_stays_in_the_queue_and_goes_out_once_it_is_back(
    filled: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = Path(shutil.copytree(filled, tmp_path / "copy")) / "pillarbox.db"
    connection = apsw.Connection(str(file))
    gone = connection.execute("SELECT min(message_id) FROM message_queue WHERE tenant_id = 'bad'").get
    connection.execute("UPDATE message_history SET message_id = '0' || message_id WHERE message_id = ?", (gone,))
    async with Pillarbox.open(f"sqlite:///{file}") as box:
        arrivals = Arrivals(box)
        await arrivals.all_delivered()
        statuses = {each.message_id: each.status for each in await box.outbound.list()}
        assert (statuses.pop(f"0{gone}"), set(statuses.values())) == ("pending", {"sent"})
        assert (await box.outbound.status()).pending == 1
        assert any(gone in record.getMessage() for record in caplog.records)
        # Somebody puts the database right.
        connection.execute("UPDATE message_history SET message_id = ? WHERE message_id = ?", (gone, f"0{gone}"))
        connection.execute("UPDATE message_queue SET state = 'ready'")
        connection.close()
        await arrivals.all_delivered()
        sent = await box.outbound.get(gone, tenant_id="bad")
    assert (sent.status, sent.attempt_count) == ("sent", 1)


async def test_a_sender_whose_name_has_the_sign_for_what_cannot_be_read_is_no_damage(tmp_path: Path) -> None:
    """A name that somebody else garbled is what was handed in."""
    async with Pillarbox.open(f"sqlite:///{tmp_path}/pillarbox.db") as box:
        account = {"provider": "sandbox", "from": "M\ufffdller <a@b.example>"}
        await box.tenants.set("acme", providers={"email": account})
        message_id = await box.outbound.send("acme", Email(to="c@d.example", subject="s", text="t"))
        await box.outbound.drain.step()
        assert (await box.outbound.get(message_id, tenant_id="acme")).status == "sent"
