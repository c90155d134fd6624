"""Speaking to a PostgreSQL server: what is said together is sent together, and answered together."""

from __future__ import annotations

import re
import select
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, Protocol

import psycopg
from psycopg import errors, pq
from psycopg.adapt import PyFormat, Transformer

from pillarbox.storage.database import Row

Said = tuple[bytes, Mapping[str, Any]]
"""A statement with its parameters, named as the driver names them."""

_MOST_PREPARED = 256
_PARAMETER = re.compile(rb"%(?:\((\w+)\)s|%)")
_FORGET = b"DEALLOCATE ALL"
_LONGEST_ASIDE = 0.1


class Speaker(Protocol):
    """One side of a conversation with a server."""

    def ask(self, said: Sequence[Said], *, aside: Said | None = None) -> list[list[Row]]:
        """Say these, one after another; the rows that each is answered with. What fails ends all that is said behind it.

        What is said aside comes after them, by itself, and nobody waits for what becomes of it.
        """


class Cursors:
    """Says one thing after another by the driver's own means, as is best through a pooler, which may not know pipelines."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def ask(self, said: Sequence[Said], *, aside: Said | None = None) -> list[list[Row]]:
        assert aside is None
        cursors = [self._connection.execute(text, params) for text, params in said]
        return [cursor.fetchall() if cursor.description else [] for cursor in cursors]


class Wire:
    """Says all of it, then that it waits for the answers: the server counts for how long it is kept waiting after that.

    The driver's own pipelines give each statement a cursor, and take longer for it than the server for the statement, between
    processes that have slept. Statements are prepared, so that the server reads each text once for a connection.
    """

    def __init__(self, connection: psycopg.Connection[Any], *, prepares: bool) -> None:
        self._server = connection.pgconn
        self._values = Transformer(connection)
        self._prepares = prepares
        self._prepared: dict[tuple[bytes, tuple[int, ...]], bytes] = {}
        self._outdated = False
        self._owed = False

    @contextmanager
    def speaking(self) -> Iterator[Wire]:
        """For one transaction; at the end nothing is left to be read, or the connection is closed."""
        self._server.enter_pipeline_mode()
        try:
            yield self
        finally:
            # A connection that is broken stays as it is, and is thrown away.
            with suppress(psycopg.OperationalError):
                self._hear_out()
                self._server.exit_pipeline_mode()

    def ask(self, said: Sequence[Said], *, aside: Said | None = None) -> list[list[Row]]:
        if self._outdated or len(self._prepared) > _MOST_PREPARED:
            self._prepared.clear()
            self._outdated = False
            return self.ask([(_FORGET, {}), *said], aside=aside)[1:]
        # Until all is well: what was to be prepared behind a fault was not.
        self._outdated = True
        steps = [self._send(text, params) for text, params in said]
        self._server.pipeline_sync()
        if aside is not None:
            self._send(*aside)
            self._server.pipeline_sync()
            self._owed = True
        results = self._results()
        for result in results:
            if result.status == pq.ExecStatus.FATAL_ERROR:
                raise self._error_of(result)
        self._outdated = False
        found = iter(results)
        return [self._rows([next(found) for _ in range(count)][-1]) for count in steps]

    def _hear_out(self) -> None:
        """Read what became of what was said aside; where that takes long, the connection is of no use to anybody."""
        if not self._owed or self._server.status == pq.ConnStatus.BAD:
            return
        self._owed = False
        try:
            results = self._results(_LONGEST_ASIDE)
        except TimeoutError:
            self._server.finish()
        else:
            self._outdated |= any(result.status == pq.ExecStatus.FATAL_ERROR for result in results)

    def _send(self, text: bytes, params: Mapping[str, Any]) -> int:
        """Send a statement, and before it what prepares it if nothing has yet; how many results there will be."""
        sql, names = numbered(text)
        values = self._values.dump_sequence([params[name] for name in names], [PyFormat.AUTO] * len(names))
        types, formats = self._values.types or (), self._values.formats
        if not (names and self._prepares):
            self._server.send_query_params(sql, values, types, formats)
            return 1
        if name := self._prepared.get((sql, types)):
            self._server.send_query_prepared(name, values, formats)
            return 1
        name = self._prepared[sql, types] = b"pillarbox%d" % len(self._prepared)
        self._server.send_prepare(name, sql, types)
        self._server.send_query_prepared(name, values, formats)
        return 2

    def _results(self, seconds: float | None = None) -> list[Any]:
        """What the server answers up to the point where we wait, for any time or not longer than that without a word."""
        results: list[Any] = []
        wire = select.poll()
        while not self._read(results):
            # As long as not all is sent the server may be waiting for us to read.
            wants = select.POLLIN | select.POLLOUT if self._server.flush() else select.POLLIN
            wire.register(self._server.socket, wants)
            heard = wire.poll(None if seconds is None else seconds * 1000)
            if not heard:
                raise TimeoutError
            if any(ready & ~select.POLLOUT for _, ready in heard):
                self._server.consume_input()
        return results

    def _read(self, results: list[Any]) -> bool:
        """Take the results that have come; whether that was all up to the point where we wait."""
        between = False
        while not self._server.is_busy():
            result = self._server.get_result()
            if result is None and between:
                break
            between = result is None
            if result is not None:
                if result.status == pq.ExecStatus.PIPELINE_SYNC:
                    return True
                results.append(result)
        return False

    def _rows(self, result: Any) -> list[Row]:
        if result.status != pq.ExecStatus.TUPLES_OK:
            return []
        self._values.set_pgresult(result)
        rows = self._values.load_rows(0, result.ntuples, tuple)
        # Or it would be kept for as long as the connection says nothing else.
        self._values.set_pgresult(None)
        return rows

    def _error_of(self, result: Any) -> psycopg.Error:
        if self._server.status == pq.ConnStatus.BAD and not result.error_field(pq.DiagnosticField.SQLSTATE):
            return psycopg.OperationalError("the connection is lost")
        return errors.error_from_result(result)


class WiredConnection(psycopg.Connection[Any]):
    """A connection that keeps its wire, with all that was prepared on it; the two go together."""

    _wire: Wire | None = None

    def wire(self, *, prepares: bool) -> Wire:
        if self._wire is None:
            self._wire = Wire(self, prepares=prepares)
        return self._wire


@lru_cache(maxsize=1024)
def numbered(text: bytes) -> tuple[bytes, tuple[str, ...]]:
    """A statement with its parameters as the server numbers them, and their names in that order."""
    numbers: dict[bytes, int] = {}

    def number(found: re.Match[bytes]) -> bytes:
        name = found[1]
        return b"%" if name is None else b"$%d" % numbers.setdefault(name, len(numbers) + 1)

    sql = _PARAMETER.sub(number, text)
    return sql, tuple(name.decode() for name in numbers)
