"""Copies of rows inside the database, with other values in some columns."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import apsw
import psycopg

FAR_AWAY = "2099-01-01T00:00:00.000000Z"


class Copier:
    """One connection that writes fast and not durably; what it wrote is on disk when it is closed."""

    def __init__(self, url: str) -> None:
        self.sqlite = url.startswith("sqlite")
        if self.sqlite:
            self._connection: Any = apsw.Connection(url.removeprefix("sqlite:///"))
            self._connection.pragma("synchronous", "off")
            self._connection.pragma("cache_size", -500_000)
            self._connection.create_scalar_function("sha256_of", _sha256, 1, deterministic=True)
        else:
            self._connection = psycopg.connect(url, autocommit=True, options="-c synchronous_commit=off")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        if kind is None:
            self._settle()
        self._connection.close()

    def copy(self, table: str, where: str, count: int, **values: str) -> None:
        """`count` copies of the rows that fit; `values` are expressions, in which `n` goes from 1 to `count`."""
        if count <= 0:
            return
        columns = self._columns(table)
        chosen = {name: f"t.{name}" for name in columns} | self._known(columns, values)
        self.execute(
            f"INSERT INTO {table} ({', '.join(chosen)}) "
            f"SELECT {', '.join(chosen.values())} FROM {table} t CROSS JOIN {self._numbers(count)} WHERE {where}"
        )

    def execute(self, sql: str) -> None:
        self._connection.execute(sql)

    def hex(self, digits: int) -> str:
        """The number `n` as so many hexadecimal digits."""
        return f"printf('%0{digits}x', n)" if self.sqlite else f"lpad(to_hex(n), {digits}, '0')"

    def sha256(self, expression: str) -> str:
        """The digest of a text, in hexadecimal digits."""
        if self.sqlite:
            return f"sha256_of({expression})"
        return f"encode(sha256(convert_to({expression}, 'UTF8')), 'hex')"

    def _columns(self, table: str) -> list[str]:
        """All but those that the database fills by itself; SQLite leaves computed ones out of this list."""
        if self.sqlite:
            rows = list(self._connection.execute(f"PRAGMA table_info({table})"))
            numbered = [name for _, name, kind, _, _, key in rows if key and kind == "INTEGER"]
            alone = sum(bool(key) for *_, key in rows) == 1
            return [name for _, name, *_ in rows if not (alone and name in numbered)]
        found = self._connection.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_name = %s AND is_identity = 'NO' "
            "AND is_generated = 'NEVER' AND COALESCE(column_default, '') NOT LIKE 'nextval%%' ORDER BY ordinal_position",
            [table],
        )
        return [row[0] for row in found.fetchall()]

    def _known(self, columns: list[str], values: Mapping[str, str]) -> dict[str, str]:
        """Copies differ from what their checksum was taken of, so they have none."""
        return {name: value for name, value in {"checksum": "NULL", **values}.items() if name in columns}

    def _numbers(self, count: int) -> str:
        if self.sqlite:
            counting = f"WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {count})"
            return f"({counting} SELECT n FROM c) numbers"
        return f"generate_series(1, {count}) AS numbers(n)"

    def _settle(self) -> None:
        """Leave the tables as a queue that runs for long has them: on disk, and known to the planner."""
        if self.sqlite:
            self._connection.pragma("wal_checkpoint(truncate)")
        else:
            self.execute("VACUUM ANALYZE")
            self.execute("CHECKPOINT")


def _sha256(*texts: object) -> str:
    (text,) = texts
    return hashlib.sha256(str(text).encode()).hexdigest()
