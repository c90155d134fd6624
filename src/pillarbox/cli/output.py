"""Answers for people and for programs; whatever others wrote is shown with its control characters escaped."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from pillarbox.errors import InvalidInput
from pillarbox.text import printable

_WHOLE = 100_000_000
_BRIEF = 80
_NARROW = 10
# JSON escapes C0 by itself; these are left as they are and still move a terminal or turn its text.
_RAW_CONTROL = re.compile("[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def show_json(value: object) -> None:
    """One JSON value on one line."""
    import msgspec

    text = msgspec.json.encode(value).decode()
    click.echo(_RAW_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode())


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """A table on a terminal; columns apart by tabs anywhere else."""
    texts = [[_text(value) for value in row] for row in rows]
    if not sys.stdout.isatty():
        for line in (columns, *texts):
            click.echo("\t".join(line))
    elif not texts:
        click.echo(empty)
    else:
        _show_rich(columns, texts)


def show_fields(value: Mapping[str, Any]) -> None:
    """A value, one field to a line."""
    width = max(map(len, value))
    for name, item in value.items():
        click.echo(f"{name:<{width}}  {_text(item)}".rstrip())


def show_more(page: Mapping[str, Any]) -> None:
    """Tell on stderr that a list goes on."""
    if page["next_cursor"]:
        click.echo(f"There are more; go on with --cursor {page['next_cursor']}.", err=True)


def brief(text: str | None) -> str:
    """The beginning of a text."""
    return printable(text or "", _BRIEF)


def when(instant: str | None) -> str:
    """An instant of an answer, to the second."""
    return "" if instant is None else f"{datetime.fromisoformat(instant):%Y-%m-%d %H:%M:%S}Z"


def until(instant: str | None) -> str:
    """How long it is to an instant."""
    if instant is None:
        return ""
    seconds = (datetime.fromisoformat(instant) - datetime.now(UTC)).total_seconds()
    return f"in {seconds:.0f} s" if seconds > 0 else "now"


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


def _show_rich(columns: Sequence[str], texts: Sequence[Sequence[str]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column, *cells in zip(columns, *texts, strict=True):
        # Where there is too little room, long texts fold; ids, numbers and states stay whole.
        table.add_column(column, overflow="fold", no_wrap=max(map(len, (column, *cells))) <= _NARROW)
    for row in texts:
        table.add_row(*map(Text, row))
    Console(highlight=False, markup=False, emoji=False).print(table)
