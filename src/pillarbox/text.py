"""What text may hold: one rule for every database, checked at the edge."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pillarbox.errors import InvalidInput

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# Control characters, and those that turn the text around them, so that a line reads otherwise than it is.
_MISLEADING = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_MISLEADING_IN_LINES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_BREAKS = re.compile("[ \t]*[\t\n\r\u2028\u2029]+[ \t\n\r\u2028\u2029]*")
_DEEPEST = 64
_PLAIN = {str, bool, float, type(None)}


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
    if _is_plain(value):
        return
    for item, where in _walk(value):
        if len(where) > _DEEPEST:
            raise InvalidInput(field, f"must not be nested deeper than {_DEEPEST} levels.")
        if isinstance(item, str) and _UNSTORABLE.search(item):
            raise InvalidInput(_path(field, where), "must not contain NUL or unpaired surrogates.")
        if isinstance(item, int) and not -(2**63) <= item < 2**64:
            raise InvalidInput(_path(field, where), "must be a number of at most 64 bits.")


def _is_plain(value: object) -> bool:
    """Whether it is an object of short answers, as most are, all of them sound: that takes no walk."""
    if not isinstance(value, dict):
        return False
    items = [*value, *value.values()]
    if not _PLAIN.issuperset(map(type, items)):
        return False
    return not _UNSTORABLE.search("".join([item for item in items if isinstance(item, str)]))


def _walk(value: object) -> Iterator[tuple[object, list[object]]]:
    """Every item, keys included, and the steps to it in one list that is used again, so that a wide value costs nothing."""
    where: list[object] = []
    yield value, where
    inside = [_steps(value)]
    while inside:
        for step, item in inside[-1]:
            where.append(step)
            if isinstance(step, str):
                yield step, where
            yield item, where
            if isinstance(item, dict | list | tuple):
                inside.append(_steps(item))
                break
            where.pop()
        else:
            inside.pop()
            if where:
                where.pop()


def _steps(value: object) -> Iterator[tuple[object, object]]:
    if isinstance(value, dict):
        return iter(value.items())
    return iter(enumerate(value)) if isinstance(value, list | tuple) else iter(())


def _path(field: str, where: list[object]) -> str:
    return ".".join([field, *map(printable, where)])


def printable(text: object, most: int = 80) -> str:
    """Foreign text cut short and with its control characters and turns of direction escaped, fit for a message or a terminal."""
    shown = _MISLEADING.sub(lambda found: f"\\u{ord(found[0]):04x}", str(text)[: most + 1])
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def on_one_line(text: str) -> str:
    """Text of many lines as the summary of it is read: line ends and tabs are blanks."""
    return _BREAKS.sub(" ", text).strip(" ")


def in_sight(text: str) -> str:
    """Text of many lines as it is, with what would hide or move other text written out."""
    return _MISLEADING_IN_LINES.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
