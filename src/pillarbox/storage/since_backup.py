"""What happened in a database after a backup of it was made, and what of that a restored backup takes over.

What people and operators have said since is kept: who opted out, who was forgotten, which keys and links were revoked.
What was done since is only counted, and told.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pillarbox.storage.migrate import migrations
from pillarbox.storage.queries import Query, load_queries

if TYPE_CHECKING:
    import apsw

_queries = load_queries("pillarbox.storage", "since_backup.sql")
_FORGETTING = (_queries.forget_message, _queries.forget_attempts, _queries.forget_events, _queries.forget_copies)
_PIPES = (
    (_queries.inbound, _queries.only_inbound),
    (_queries.hooks, _queries.only_hooks),
    (_queries.outbound, _queries.only_outbound),
)
_ROOM = ("sealing_key", "message_opt_out", "embed_epoch")


@dataclass(frozen=True, slots=True)
class Since:
    """What the database that is replaced knows and the backup does not.

    `ended` waits in the backup and has ended; `missing` came in afterwards. Opt-outs are by the hash of a contact, and under
    another key (`other_key`) they would not be found: then they are not taken over.
    """

    ended: int
    missing: int
    opt_outs: int
    other_key: bool
    forgotten: int
    revoked_keys: int
    revoked_links: int
    inbox_keys: int
    idempotency_keys: int


@dataclass(frozen=True, slots=True)
class TakenOver:
    """What a restored backup has from the database before it; not `complete` where that could not be read to the end.

    Opt-outs stay behind where that database's key is another one or cannot be read (`other_key`).
    """

    opt_outs: int
    other_key: bool
    forgotten: int
    revoked_keys: int
    revoked_links: int
    complete: bool


def compare(database: apsw.Connection) -> Since | None:
    """Compare the database of this connection with the one that is attached to it as `backup`; None if it is none of ours."""
    if not _has_schema(database):
        return None
    pipes = [_row(database, *queries) for queries in _PIPES]
    return Since(
        ended=sum(ended for ended, _ in pipes),
        missing=sum(missing for _, missing in pipes),
        opt_outs=_row(database, _queries.opt_outs, _queries.only_opt_outs)[0],
        other_key=bool(_row(database, _queries.other_key)[0]),
        forgotten=_row(database, _queries.forgotten)[0],
        revoked_keys=_row(database, _queries.revoked_keys)[0],
        revoked_links=_row(database, _queries.revoked_links, _queries.only_revoked_links)[0],
        inbox_keys=_row(database, _queries.inbox_keys, _queries.only_inbox_keys)[0],
        idempotency_keys=_row(database, _queries.idempotency_keys, _queries.only_idempotency_keys)[0],
    )


def take_over(old: apsw.Connection, copy: Path) -> TakenOver:
    """Write into a copy of the backup what was said in the old database since, as far as that can be read."""
    said = _Said(old)
    with _writing(copy) as new:
        kept, key = 0, said.only(_queries.read_sealing_key)
        other_key = key is None or _is_another(new, key)
        if key is not None and not other_key:
            kept = _write(new, said.rows(_queries.read_opt_outs), _queries.keep_opt_out)
            _write(new, iter(key), _queries.keep_sealing_key)
        _write(new, said.rows(_queries.read_forgotten_opt_outs), _queries.forget_opt_out)
        forgotten = _write(new, said.rows(_queries.read_forgotten), *_FORGETTING)
        keys = _write(new, said.rows(_queries.read_revoked_keys), _queries.revoke_key)
        links = _write(new, said.rows(_queries.read_revoked_links), _queries.revoke_links)
    return TakenOver(kept, other_key, forgotten, keys, links, said.complete)


class _Said:
    """The rows of a database that may be damaged, or empty."""

    def __init__(self, database: apsw.Connection) -> None:
        self._database = database
        self.complete = _has_schema(database)

    def rows(self, read: Query) -> Iterator[tuple[Any, ...]]:
        """As many as can be read; none where an older schema has no such table."""
        import apsw

        try:
            yield from self._database.execute(read.sqlite)
        except apsw.SQLError:
            return
        except apsw.Error:
            self.complete = False

    def only(self, read: Query) -> list[tuple[Any, ...]] | None:
        """The few rows of an answer; None if they cannot be read."""
        import apsw

        try:
            return list(self._database.execute(read.sqlite))
        except apsw.SQLError:
            return []
        except apsw.Error:
            self.complete = False
            return None


def _has_schema(database: apsw.Connection) -> bool:
    """Whether tables of ours were ever made in a database; a file that lost everything looks like a new one."""
    import apsw

    with suppress(apsw.Error):
        return database.execute(_queries.schema.sqlite).get is not None
    return False


def _is_another(new: apsw.Connection, key: list[tuple[Any, ...]]) -> bool:
    present = list(new.execute(_queries.read_sealing_key.sqlite))
    return bool(key and present and key != present)


def _write(new: apsw.Connection, rows: Iterator[tuple[Any, ...]], first: Query, *others: Query) -> int:
    """Have each row written in one way or several; how many rows the first of them changed."""
    changed = 0
    for row in rows:
        new.execute(first.sqlite, row)
        if new.changes():
            changed += 1
            for other in others:
                new.execute(other.sqlite, row)
    return changed


@contextmanager
def _writing(copy: Path) -> Iterator[apsw.Connection]:
    """One transaction on a database that nobody else has open; at the end it is on disk, and no log is left beside it."""
    import apsw

    from pillarbox.storage.sqlite_connection import translated

    try:
        with closing(apsw.Connection(str(copy))) as new:
            new.pragma("journal_mode", "delete")
            new.pragma("synchronous", "full")
            with new:
                _make_room(new)
                yield new
    except apsw.Error as error:
        raise translated(error, str(copy)) from error


def _make_room(new: apsw.Connection) -> None:
    """A backup that is older than what is kept gets the tables; migrating it makes them once more, which changes nothing."""
    for migration in migrations("sqlite"):
        for statement in migration.statements:
            if any(table in statement.sqlite for table in _ROOM):
                new.execute(statement.sqlite)


def _row(database: apsw.Connection, *queries: Query) -> tuple[Any, ...]:
    """The only row of the first answer that the schemas allow; nothing but zeros where there are no such tables."""
    import apsw

    for query in queries:
        with suppress(apsw.SQLError):
            return next(database.execute(query.sqlite))
    return (0, 0)
