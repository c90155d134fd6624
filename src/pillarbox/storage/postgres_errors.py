"""What the errors of a PostgreSQL server mean."""

from __future__ import annotations

import psycopg
from psycopg import errors

from pillarbox.errors import DatabaseBusy, DatabaseFull, Unavailable

# The server ends what is idle in a transaction for too long, as one that was stopped and goes on now.
LOST = (psycopg.OperationalError, errors.IdleInTransactionSessionTimeout)
CREATED_TWICE = (errors.UniqueViolation, errors.DuplicateTable, errors.DuplicateObject)


def leaves_commit_unknown(error: BaseException) -> bool:
    """Whether COMMIT may have taken effect although it did not say so; a plain error of the server is a no."""
    if isinstance(error, errors.StatementCompletionUnknown):
        return True
    return isinstance(error, psycopg.OperationalError) and error.diag.severity_nonlocalized != "ERROR"


def two_created_it(error: psycopg.Error) -> bool:
    """Whether CREATE ... IF NOT EXISTS met another one at the same time, which PostgreSQL does not wait for."""
    return not isinstance(error, errors.UniqueViolation) or error.diag.schema_name == "pg_catalog"


def was_prepared_for_another_schema(error: psycopg.Error) -> bool:
    """Whether a newer node has changed a table since; after any fault a wire prepares everything anew."""
    return error.diag.source_function == "RevalidateCachedQuery"


def raise_if_final(error: psycopg.Error) -> None:
    """A lost connection is worth another try; a server that says no is not."""
    match error:
        case errors.ProgramLimitExceeded():
            raise error
        case errors.DiskFull() | errors.OutOfMemory():
            raise DatabaseFull("The database server has no room left; make some and try again.") from error
        case errors.InvalidAuthorizationSpecification() | errors.InvalidCatalogName():
            raise Unavailable("The database server refuses this user or database; check the URL.") from error
        case errors.QueryCanceled() | errors.LockNotAvailable():
            raise DatabaseBusy("The database was too slow to answer; try again.") from error
