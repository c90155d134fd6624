"""PostgreSQL array literals, written directly: the driver's own lists cost ten times as much as the statement they go into."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pillarbox.storage.database import Row, Statement
from pillarbox.storage.values import instant_text


def parameters(statement: Statement) -> dict[str, Any]:
    """A statement's parameters as PostgreSQL takes them: a set of rows as one array for each of its columns."""
    params: dict[str, Any] = dict(statement.params)
    sets = statement.query.sets
    if sets:
        rows: Sequence[Row] = params.pop("rows")
        columns: Sequence[Sequence[object]] = list(zip(*rows, strict=True)) or [()] * len(sets)
        params.update(zip((f"rows_{name}" for name in sets), columns, strict=True))
    return {name: array_literal(value) if isinstance(value, list | tuple) else value for name, value in params.items()}


def array_literal(values: Sequence[object]) -> str:
    """A one-dimensional array as PostgreSQL reads it from text; the statement casts it to its type."""
    kinds = set(map(type, values))
    if kinds == {int}:
        elements = ",".join(map(str, values))
    elif kinds == {str} and (texts := _texts(values)):  # type: ignore[arg-type]
        elements = texts
    elif values and values.count(values[0]) == len(values):
        # Most columns of a set say the same in every row, or nothing.
        elements = ",".join([_element(values[0])] * len(values))
    else:
        elements = ",".join([_element(value) for value in values])
    return "{" + elements + "}"


def _texts(values: Sequence[str]) -> str | None:
    """All texts at once; None where one has a NUL in it, which no column takes and which stands between them here."""
    joined = "\0".join(values)
    if joined.count("\0") != len(values) - 1:
        return None
    return _quoted(joined).replace("\0", '","')


def _element(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, datetime):
        return f'"{instant_text(value)}"'
    return str(value)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
