"""What every table and column is, read from a database that the migrations have just made."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pillarbox.box import open_database
from pillarbox.settings import Settings
from pillarbox.storage import Row, Step
from pillarbox.storage.migrate import migrate
from pillarbox.storage.queries import parse_queries

MEANINGS: Mapping[str, str] = {
    "sessions": "Conversations, and where their messages end.",
    "session_channels": "Which chat of which platform belongs to which session.",
    "inbound_queue": "Messages on their way to a session: one row each.",
    "inbound_strand": "One slim row for each session: its head, its lease and its token.",
    "hook_outbox": "Events of agents: one row each.",
    "hook_event": "A view: the events as they are looked at, those that a strand holds as `processing`.",
    "hook_strand": "One slim row for each session with events: its head, its lease and its token.",
    "hook_offer": "Workers that rest and take the next event that comes alone (SQLite).",
    "agent_state": "What the last events of a session said of its agent.",
    "message_queue": "Outbound messages that have not ended: routing and lease only.",
    "message_history": "Every outbound message: its content, its state and what became of it.",
    "message_attempt": "One row for each attempt that has ended.",
    "message_event": "What became known of a message after it was sent.",
    "message_copy": "Who else a message goes to, by cc and bcc, so that opting out and forgetting find them.",
    "message_opt_out": "Contacts that a tenant must not write to; an erased contact stays as a keyed hash.",
    "idempotency_key": "Keys of callers, and the message that each of them made.",
    "tenants": "On whose behalf messages are sent: providers, limits, and whose turn it is.",
    "inbox": "Keys that consumers handle once: a lease, then a memory.",
    "conversation": "How far the transcript of a session's agent was read.",
    "conversation_line": "What was said in a session, in order, until every chat was told.",
    "conversation_chat": "How far each chat of a session was told.",
    "conversation_preview": "What is shown in chats of turns that run, until it is taken away, and who minds it.",
    "adapter_position": "How far a chat platform was read.",
    "adapter_lease": "Which process reads a platform that only one may read.",
    "api_keys": "Keys to the HTTP API, as hashes.",
    "operator_action": "The audit: what operators did.",
    "operation": "Bulk actions, and how far each has come.",
    "node": "Processes that work on this database, and when each was last seen.",
    "sandbox_trouble": "The trouble that operators arranged for the sandbox's next sends.",
    "embed_epoch": "Which embed links of a tenant still count.",
    "sealing_key": "The name of the key that seals what is sealed; never the key.",
    "boot_clock": "The offset of the stored timeline for each boot of this machine.",
    "schema_migration": "The migrations that were applied.",
}
_TABLES = (
    "SELECT name, sql FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' ORDER BY name"
)
_COLUMNS = 'SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(:table)'
_INDEXES = (
    "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = :table AND sql IS NOT NULL ORDER BY name"
)


@dataclass(frozen=True)
class Table:
    """A table as the database has it."""

    name: str
    columns: Sequence[Row]
    indexes: Sequence[Row]


def read_tables() -> list[Table]:
    """Every table that the migrations make."""
    return asyncio.run(_read_tables())


def described() -> str:
    """Every table with its columns and indexes, as Markdown."""
    return "\n".join(_section(table) for table in read_tables())


async def _read_tables() -> list[Table]:
    database = await open_database("sqlite:///:memory:", Settings())
    try:
        await migrate(database)
        return await database.write(_reading)
    finally:
        await database.close()


def _reading() -> Step[list[Table]]:
    tables, columns, indexes = parse_queries(
        f"-- name: tables\n{_TABLES}\n-- name: columns\n{_COLUMNS}\n-- name: indexes\n{_INDEXES}\n"
    )
    found = []
    for name, _ in (yield tables()):
        found.append(Table(name, (yield columns(table=name)), (yield indexes(table=name))))
    return found


def _section(table: Table) -> str:
    rows = "".join(
        f"| `{name}` | {kind.lower()} | {_rules(required, default, key)} |\n"
        for name, kind, required, default, key in table.columns
    )
    indexes = "".join(f"- `{name}`: {_terms(sql)}\n" for name, sql in table.indexes)
    return (
        f"## `{table.name}`\n\n{MEANINGS.get(table.name, '')}\n\n| column | kind | |\n| --- | --- | --- |\n{rows}"
        + (f"\nIndexes:\n\n{indexes}" if indexes else "")
    )


def _rules(required: int, default: str | None, key: int) -> str:
    said = [
        "primary key" if key else "",
        "not null" if required else "",
        f"default `{default}`" if default is not None else "",
    ]
    return ", ".join(filter(None, said))


def _terms(sql: str) -> str:
    """What an index is over, and for which rows."""
    kind = "unique " if re.match(r"CREATE UNIQUE", sql) else ""
    terms = " ".join(sql.split()).partition(" ON ")[2].partition(" ")[2]
    return f"{kind}`{terms}`"
