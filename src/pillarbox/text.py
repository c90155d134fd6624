"""What text may hold: one rule for every database, checked at the edge."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pillarbox.errors import InvalidInput

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_DEEPEST = 64


def check_text(field: str, value: str, *, most: int, least: int = 0) -> str:
    """Text of any kind that every database can store."""
    if not least <= len(value) <= most:
        raise InvalidInput(
            field, f"must have {least} to {most} characters." if least else f"must have at most {most} characters."
        )
    if _UNSTORABLE.search(value):
        raise InvalidInput(field, "must not contain NUL or unpaired surrogates.")
    return value


def check_name(field: str, value: str, *, most: int) -> str:
    """Text on one line that names something: never empty, no control characters."""
    check_text(field, value, most=most, least=1)
    if _CONTROL.search(value):
        raise InvalidInput(field, "must not contain control characters.")
    return value


def check_json(field: str, value: object) -> None:
    """A JSON value of which every string can be stored, nested no deeper than can be read back."""
    for path, item, depth in _walk(field, value):
        if depth > _DEEPEST:
            raise InvalidInput(field, f"must not be nested deeper than {_DEEPEST} levels.")
        if isinstance(item, str) and _UNSTORABLE.search(item):
            raise InvalidInput(path, "must not contain NUL or unpaired surrogates.")
        if isinstance(item, int) and not -(2**63) <= item < 2**64:
            raise InvalidInput(path, "must be a number of at most 64 bits.")


def _walk(field: str, value: object) -> Iterator[tuple[str, object, int]]:
    waiting: list[tuple[str, object, int]] = [(field, value, 0)]
    while waiting:
        path, item, depth = waiting.pop()
        yield path, item, depth
        if depth > _DEEPEST:
            return
        if isinstance(item, dict):
            for key, inner in item.items():
                yield f"{path}.{printable(key)}", key, depth + 1
                waiting.append((f"{path}.{printable(key)}", inner, depth + 1))
        elif isinstance(item, list | tuple):
            waiting.extend((f"{path}.{index}", inner, depth + 1) for index, inner in enumerate(item))


def printable(text: object, most: int = 80) -> str:
    """Foreign text cut short and with its control characters escaped, fit for a message or a terminal."""
    shown = _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", str(text)[: most + 1])
    return shown if len(shown) <= most else shown[: most - 1] + "…"
