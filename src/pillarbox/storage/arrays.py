"""PostgreSQL array literals, written directly: the driver's own lists cost ten times as much as the statement they go into."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pillarbox.storage.values import instant_text


def array_literal(values: Sequence[object]) -> str:
    """A one-dimensional array as PostgreSQL reads it from text; the statement casts it to its type."""
    return "{" + ",".join([_element(value) for value in values]) + "}"


def _element(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, datetime):
        return f'"{instant_text(value)}"'
    return str(value)
