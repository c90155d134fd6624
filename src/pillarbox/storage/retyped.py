"""Text that a disk has made to be of another type: SQLite takes no change of its row until it is text again."""

from __future__ import annotations

import re

import apsw

_REFUSED = re.compile(r"cannot store \w+ value in TEXT column (\w+)\.\w+$")


def set_right(connection: apsw.Connection | apsw.Cursor, error: apsw.ConstraintError) -> bool:
    """Make text again of what is none in the table that the error names; whether that is worth another try.

    One bit says of which type a value is. The bytes are the same, and where they are not, the row's checksum tells.
    """
    refused = _REFUSED.search(str(error))
    if refused is None or getattr(error, "extendedresult", 0) != apsw.SQLITE_CONSTRAINT_DATATYPE:
        return False
    table = refused[1]
    texts = [
        name for (name,) in connection.execute("SELECT name FROM pragma_table_info(?) WHERE type = 'TEXT'", (table,))
    ]
    casts = ", ".join(f"{name} = iif(typeof({name}) = 'blob', CAST({name} AS TEXT), {name})" for name in texts)
    damaged = " OR ".join(f"typeof({name}) = 'blob'" for name in texts)
    connection.execute(f"UPDATE {table} SET {casts} WHERE {damaged}")
    return bool(itself(connection).changes())


def itself(connection: apsw.Connection | apsw.Cursor) -> apsw.Connection:
    return connection if isinstance(connection, apsw.Connection) else connection.connection
