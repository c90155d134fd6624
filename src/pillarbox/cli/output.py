"""Answers for people and for programs; whatever others wrote is shown with its control characters escaped."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from pillarbox.cli.program import runnable
from pillarbox.cli.tables import draw, draw_folding
from pillarbox.errors import InvalidInput
from pillarbox.text import on_one_line, printable

_WHOLE = 100_000_000
_BRIEF = 80
_WIDE = 24
_UNITS = (("y", 365 * 86_400), ("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
# JSON escapes C0 by itself; these are left as they are and still move a terminal or turn its text.
_RAW_CONTROL = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def show_json(value: object) -> None:
    """One JSON value on one line."""
    import msgspec

    text = msgspec.json.encode(value).decode()
    click.echo(_RAW_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode())


def show_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    empty: str,
    loose: Collection[str] = (),
    spare: Sequence[str] = (),
    ids: Collection[str] = (),
) -> None:
    """A table on a terminal; columns apart by tabs anywhere else.

    Where a terminal is too narrow the loose columns end in an ellipsis, messages' ids are shown by their beginnings, by which
    they can be named, and the spare columns are left out, the first of them first. All others stay whole.
    """
    texts = [[_text(value) for value in row] for row in rows]
    if not sys.stdout.isatty():
        for line in (columns, *texts):
            click.echo("\t".join(line))
    elif not texts:
        click.echo(runnable(empty))
    elif loose:
        missing = draw(columns, texts, loose=loose, spare=spare, ids=ids)
        if missing:
            click.echo(f"Too narrow for: {', '.join(missing)}. A wider terminal, a pipe or --json shows all.", err=True)
    else:
        draw_folding(columns, texts)


def show_fields(value: Mapping[str, Any]) -> None:
    """A value, one field to a line; what is in a field of several is indented below its name."""
    for line in _field_lines(value):
        click.echo(line)


def show_more(page: Mapping[str, Any]) -> None:
    """Tell on stderr that a list goes on."""
    if page["next_cursor"]:
        click.echo(f"There are more; go on with --cursor {page['next_cursor']}.", err=True)


def brief(text: str | None) -> str:
    """The beginning of a text, on one line."""
    return printable(on_one_line(text or ""), _BRIEF)


def when(instant: str | None) -> str:
    """An instant of an answer, to the second."""
    return "" if instant is None else f"{datetime.fromisoformat(instant):%Y-%m-%d %H:%M:%S}Z"


def until(instant: str | None) -> str:
    """How long it is to an instant."""
    if instant is None:
        return ""
    seconds = (datetime.fromisoformat(instant) - datetime.now(UTC)).total_seconds()
    return f"in {span(seconds)}" if seconds > 0 else "now"


def span(seconds: float) -> str:
    """A length of time in its two largest units, as in 12 d 4 h."""
    left, parts = round(seconds), list[str]()
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
        elif parts:
            break
        if len(parts) == 2:
            break
    return " ".join(parts) or "0 s"


def read_json(field: str, text: str | None) -> object:
    """A JSON value that was given as an option."""
    import msgspec

    if text is None:
        return None
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        raise InvalidInput(
            field, 'must be JSON; put it in single quotes for the shell, as in \'{"name": "value"}\'.'
        ) from None


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, dict | list):
        import msgspec

        value = msgspec.json.encode(value).decode()
    return printable(value, _WHOLE)


def _field_lines(value: Mapping[str, Any], *, deep: bool = True) -> Iterator[str]:
    names = {name: printable(name, _WHOLE) for name in value}
    width = max(map(len, names.values()), default=0)
    for name, item in value.items():
        if deep and (inside := _inside(item)):
            yield names[name]
            yield from (f"  {line}" for line in inside)
        else:
            yield f"{names[name]:<{width}}  {'' if item in ({}, []) else _text(item)}".rstrip()


def _inside(item: object) -> list[str]:
    """The lines of an object or of a list of them; none for all else."""
    if isinstance(item, dict):
        return list(_field_lines(item, deep=False))
    if not isinstance(item, list) or not item or not all(isinstance(row, dict) for row in item):
        return []
    rows: list[dict[str, Any]] = item
    columns = list(dict.fromkeys(name for row in rows for name in row if row[name] is not None))
    cells = {name: [printable(name, _WHOLE), *(_cell(name, row.get(name)) for row in rows)] for name in columns}
    widths = {name: max(map(len, texts)) for name, texts in cells.items()}
    if widths and max(widths.values()) > _WIDE:
        # A long text is last, where it keeps nothing else out of sight.
        longest = max(columns, key=lambda name: widths[name])
        columns = [*(name for name in columns if name != longest), longest]
    table = zip(*([text.ljust(widths[name]) for text in cells[name]] for name in columns), strict=True)
    return ["  ".join(line).rstrip() for line in table]


def _cell(name: str, value: Any) -> str:
    return when(value) if isinstance(value, str) and (name == "at" or name.endswith("_at")) else _text(value)
