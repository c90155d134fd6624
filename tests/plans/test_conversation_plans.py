"""No look at conversations costs more because many of them are over."""

from pathlib import Path

import pytest

from pillarbox.conversations.lines import queries
from pillarbox.storage import Statement
from pillarbox.storage.migrate import migrations
from tests.plans.looks import FilledSqlite

AT = "'2026-01-01T00:00:00.000000Z'"
LOOKS = {
    "whose words can be read": queries.followed(served_by="node:here", limit=1000),
    "whose last words are to be read": queries.ending(served_by="node:here", limit=1000, closed_before=AT.strip("'")),
    "whose terminals are watched": queries.watched_panes(served_by="node:here", limit=1000),
    "who has not heard what people said": queries.unheard(limit=200),
    "which chats are to be told something": queries.due_chats(limit=200),
    "what one is told next": queries.lines(session_id="s7", seq=1, limit=50),
    "whether a command was obeyed": queries.answered(origin="telegram", source_id="x"),
    "where a chat wrote last": queries.last_way(session_id="s7", origin="telegram", channel_id="7", after=0, until=5),
    "where it wrote at all": queries.any_way(session_id="s7", origin="telegram", channel_id="7", after=0),
    "where it wrote since": queries.later_ways(
        session_id="s7", origin="telegram", channel_id="7", after=0, until=5, limit=100
    ),
    "whether a chat listens to another session": queries.listens_elsewhere(
        session_id="s7", origin="telegram", channel_id="7"
    ),
    "which chats are shown what the agent does": queries.chats_and_words(session_id="s7"),
}


def filled(path: Path, over: int) -> FilledSqlite:
    """Conversations that are over, each with its chat and lines that were told."""
    database = FilledSqlite(str(path))
    for migration in migrations("sqlite"):
        for statement in migration.statements:
            database.run(statement.sqlite)
    numbers = f"(WITH RECURSIVE c(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM c WHERE n + 1 < {over}) SELECT n FROM c)"
    for sql in (
        f"INSERT INTO sessions (session_id, lifecycle_status, target, created_at, updated_at) "
        f"SELECT 's' || n, 'closed', '{{}}', {AT}, {AT} FROM {numbers}",
        "INSERT INTO inbound_strand (session_id, destination, served_by, state, next_seq, token) "
        f"SELECT 's' || n, 'd', 'any', 'closed', 5, 0 FROM {numbers}",
        f"INSERT INTO agent_state (session_id, last_activity, transcript_path) SELECT 's' || n, {AT}, '/t' FROM {numbers}",
        f"INSERT INTO conversation (session_id, next_seq, source) SELECT 's' || n, 5, '/t' FROM {numbers}",
        "INSERT INTO conversation_chat (origin, channel_id, session_id, seq, message_id) "
        f"SELECT 'telegram', n, 's' || n, 5, 'm' || n FROM {numbers}",
        "INSERT INTO conversation_line (session_id, seq, kind, content, said_at) "
        f"SELECT 's' || n, 1, 'agent', 'words', {AT} FROM {numbers}",
    ):
        database.run(sql)
    return database


@pytest.fixture(scope="module")
def fills(tmp_path_factory: pytest.TempPathFactory) -> tuple[FilledSqlite, FilledSqlite]:
    folder = tmp_path_factory.mktemp("conversations")
    return filled(folder / "few.db", 10), filled(folder / "many.db", 20_000)


@pytest.mark.parametrize("name", LOOKS)
def test_a_look_costs_the_same_after_twenty_thousand_conversations(
    fills: tuple[FilledSqlite, FilledSqlite], name: str
) -> None:
    statement: Statement = LOOKS[name]
    few, many = (database.look(statement) for database in fills)
    assert many.scanned <= {"s", "c"}, "and those along an index of what is open"
    assert many.cost <= few.cost + 50
