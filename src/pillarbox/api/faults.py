"""What msgspec found wrong, as a dotted path and a sentence that quotes nothing the caller sent but a field's name."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import inspect

from pillarbox.text import printable

_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|(\[\.\.\.\])")
_SHORT = 80


def fault_of(error: msgspec.ValidationError, kind: type) -> tuple[str, str]:
    """The field at fault and what is wrong with it."""
    said, steps = _parts(error)
    path = ".".join(step for step in steps if step is not None)
    if found := _UNKNOWN.fullmatch(said):
        return _join(path, printable(found[1], _SHORT) or '""'), "is not a known field."
    if found := _MISSING.fullmatch(said):
        return _join(path, found[1]), "is required."
    if said.startswith("Invalid enum value"):
        words = _words(inspect.type_info(kind), steps)
        return path, f"must be one of {', '.join(words)}." if words else "is not one of the words allowed here."
    if said.startswith("Invalid value"):
        return path, "is not one of the values allowed here."
    return path, printable(said.replace("`", ""), 200) + "."


def mended(value: Any, error: msgspec.ValidationError) -> bool:
    """Turn 3.0 into 3 where an integer was expected; to JSON they are the same number."""
    said, steps = _parts(error)
    if not said.startswith("Expected `int") or "got `float`" not in said or not steps or None in steps:
        return False
    *above, last = [int(step) if step is not None and step.isdigit() else step for step in steps]
    try:
        for step in above:
            value = value[step]
        number = value[last]
    except (KeyError, IndexError, TypeError):
        return False
    if not isinstance(number, float) or not number.is_integer() or abs(number) >= 2**63:
        return False
    value[last] = int(number)
    return True


def _parts(error: msgspec.ValidationError) -> tuple[str, list[str | None]]:
    """What was said, and the steps to where; None is some key of an object."""
    said, _, where = str(error).rpartition(" - at `")
    if not said:
        return where, []
    steps = [name or index or None for name, index, _ in _STEP.findall(where.rstrip("`"))]
    return said, steps


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _words(kind: inspect.Type, steps: list[str | None]) -> list[str]:
    """The words that the field at the end of these steps may be."""
    for step in steps:
        choices = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
        inner = [found for choice in choices if (found := _inside(choice, step)) is not None]
        if not inner:
            return []
        kind = inner[0]
    choices = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    return [str(word) for choice in choices if isinstance(choice, inspect.LiteralType) for word in choice.values]


def _inside(kind: inspect.Type, step: str | None) -> inspect.Type | None:
    match kind:
        case inspect.Metadata():
            return _inside(kind.type, step)
        case inspect.StructType():
            return next((field.type for field in kind.fields if field.encode_name == step), None)
        case inspect.ListType() | inspect.VarTupleType():
            return kind.item_type
        case inspect.DictType():
            return kind.value_type
        case _:
            return None
