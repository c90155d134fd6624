"""What happened in a database after a backup of it was made, and what of that a restored backup takes over.

What people and operators have said since is kept: who opted out, who was forgotten, which keys were revoked. What was done
since is only counted, and told.
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
_PIPES = (_queries.inbound, _queries.hooks, _queries.outbound)


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
    inbox_keys: int
    idempotency_keys: int


@dataclass(frozen=True, slots=True)
class TakenOver:
    """What a restored backup has from the database before it; not `complete` where that could not be read to the end."""

    opt_outs: int
    forgotten: int
    revoked_keys: int
    complete: bool


def compare(database: apsw.Connection) -> Since:
    """Compare the database of this connection with the one that is attached to it as `backup`."""
    pipes = [_row(database, query) for query in _PIPES]
    return Since(
        ended=sum(ended for ended, _ in pipes),
        missing=sum(missing for _, missing in pipes),
        opt_outs=_row(database, _queries.opt_outs)[0],
        other_key=bool(_row(database, _queries.other_key)[0]),
        forgotten=_row(database, _queries.forgotten)[0],
        revoked_keys=_row(database, _queries.revoked_keys)[0],
        inbox_keys=_row(database, _queries.inbox_keys)[0],
        idempotency_keys=_row(database, _queries.idempotency_keys)[0],
    )


def take_over(old: apsw.Connection, copy: Path, *, opt_outs: bool) -> TakenOver:
    """Write into a copy of the backup what was said in the old database since, as far as that can be read."""
    said = _Said(old)
    with _writing(copy) as new:
        kept = 0
        if opt_outs:
            kept = _write(new, said.rows(_queries.read_opt_outs), _queries.keep_opt_out)
            _write(new, said.rows(_queries.read_sealing_key), _queries.keep_sealing_key)
        _write(new, said.rows(_queries.read_forgotten_opt_outs), _queries.forget_opt_out)
        forgotten = _write(new, said.rows(_queries.read_forgotten), *_FORGETTING)
        revoked = _write(new, said.rows(_queries.read_revoked_keys), _queries.revoke_key)
    return TakenOver(kept, forgotten, revoked, said.complete)


class _Said:
    """The rows of a database that may be damaged."""

    def __init__(self, database: apsw.Connection) -> None:
        self._database = database
        self.complete = True

    def rows(self, read: Query) -> Iterator[tuple[Any, ...]]:
        """As many as can be read; none where an older schema has no such table."""
        import apsw

        try:
            yield from self._database.execute(read.sqlite)
        except apsw.SQLError:
            return
        except apsw.Error:
            self.complete = False


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
                _make_room_for_opt_outs(new)
                yield new
    except apsw.Error as error:
        raise translated(error, str(copy)) from error


def _make_room_for_opt_outs(new: apsw.Connection) -> None:
    """A backup that is older than opt-outs gets their tables; migrating it makes them once more, which changes nothing."""
    for migration in migrations("sqlite"):
        for statement in migration.statements:
            if "sealing_key" in statement.sqlite or "message_opt_out" in statement.sqlite:
                new.execute(statement.sqlite)


def _row(database: apsw.Connection, query: Query) -> tuple[Any, ...]:
    """The only row of an answer; nothing but zeros where an older schema has no such table."""
    import apsw

    with suppress(apsw.SQLError):
        return next(database.execute(query.sqlite))
    return (0, 0)
