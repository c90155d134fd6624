"""Running a query on a filled database without leaving a trace, and what its plan and its cost were."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import apsw
import psycopg

from pillarbox.storage import Statement
from pillarbox.storage.postgres_exchange import ask
from pillarbox.storage.postgres_wire import numbered
from pillarbox.storage.sqlite_connection import execute_one, keep_plans

_EXPLAIN = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)"


@dataclass(frozen=True, slots=True)
class Look:
    """How a database answered: the indexes it used, the tables it read whole, and pages touched or steps taken."""

    indexes: frozenset[str]
    scanned: frozenset[str]
    cost: int


class Filled(Protocol):
    """A database that can be filled and looked at."""

    def run(self, sql: str) -> None: ...

    def look(self, statement: Statement) -> Look: ...


class FilledSqlite:
    def __init__(self, path: str) -> None:
        self.connection = apsw.Connection(path)
        self.connection.pragma("synchronous", "off")
        keep_plans(self.connection)

    def run(self, sql: str) -> None:
        self.connection.execute(sql)

    def look(self, statement: Statement) -> Look:
        query = statement.query
        plan = execute_one(
            self.connection, replace(statement, query=replace(query, sqlite=f"EXPLAIN QUERY PLAN {query.sqlite}"))
        )
        details = [str(row[3]) for row in plan]
        steps: list[int] = []
        self.connection.trace_v2(
            apsw.SQLITE_TRACE_PROFILE,
            lambda event: steps.append(event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]),
        )
        self.connection.execute("BEGIN")
        execute_one(self.connection, statement)
        self.connection.execute("ROLLBACK")
        self.connection.trace_v2(0, None)
        return Look(frozenset(_sqlite_indexes(details)), frozenset(_sqlite_scans(details)), max(steps))


class FilledPostgres:
    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url, autocommit=True, prepare_threshold=None)

    def run(self, sql: str) -> None:
        self.connection.execute(sql.encode())

    def look(self, statement: Statement) -> Look:
        with self.connection.transaction(force_rollback=True):
            row = self._with_one_plan(statement) if statement.query.once else self._explained(statement)
        assert row is not None
        root = row[0][0]["Plan"]
        nodes = list(_nodes(root))
        indexes = frozenset(node["Index Name"] for node in nodes if "Index Name" in node)
        scanned = frozenset(node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan")
        return Look(indexes, scanned, root["Shared Hit Blocks"] + root["Shared Read Blocks"])

    def _explained(self, statement: Statement) -> Any:
        explained = replace(statement.query, postgres=f"{_EXPLAIN} {statement.query.postgres}")
        return ask(self.connection, replace(statement, query=explained)).fetchone()

    def _with_one_plan(self, statement: Statement) -> Any:
        """As it is planned without a look at the parameters."""
        sql, names = numbered(statement.query.postgres.encode())
        self.connection.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        self.connection.execute(b"PREPARE looked_at AS " + sql)
        # The parameters of a prepared statement are part of the text that runs it.
        cursor = psycopg.ClientCursor(self.connection)
        given = ", ".join(["%s"] * len(names))
        row = cursor.execute(
            f"{_EXPLAIN} EXECUTE looked_at({given})".encode(), [statement.params[name] for name in names]
        )
        found = row.fetchone()
        self.connection.execute("DEALLOCATE looked_at")
        return found


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", []):
        yield from _nodes(inner)


def _sqlite_indexes(details: list[str]) -> Iterator[str]:
    for detail in details:
        if "PRIMARY KEY" in detail:
            yield "primary key"
        elif "INDEX " in detail:
            yield detail.split("INDEX ")[1].split(" ")[0]


def _sqlite_scans(details: list[str]) -> Iterator[str]:
    for detail in details:
        if detail.startswith("SCAN ") and "USING" not in detail and "VIRTUAL" not in detail:
            yield detail.removeprefix("SCAN ").split(" ")[0]
