"""Tables for a terminal of any width: what one copies stays good for copying, long texts give way."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_GAP = 2
_NARROWEST = 10
_NUMBER = re.compile(r"[\d.,]+\+?")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SHORTEST_ID = 13
"""As much of a message's id as tells when it was made, to the millisecond."""


def draw(
    columns: Sequence[str],
    texts: Sequence[Sequence[str]],
    *,
    loose: Collection[str],
    spare: Sequence[str],
    ids: Collection[str] = (),
) -> list[str]:
    """Print a table as wide as the terminal, or wider where even what must stay does not fit; answers what was left out."""
    from rich.text import Text

    console = _console()
    cells = {name: list(column) for name, *column in zip(columns, *texts, strict=True)}
    if _total(_least(_widths(cells), loose).values()) > console.width:
        cells |= {name: shortened(cells[name]) for name in cells if name in ids}
    empty = [name for name, column in cells.items() if not any(column)]
    widths = fitted(_widths(cells), console.width, loose=loose, spare=[*empty, *spare])
    table = _table()
    for name, width in widths.items():
        table.add_column(name, width=width, no_wrap=True, overflow="ellipsis", justify=_side(cells[name]))
    for row in zip(*(cells[name] for name in widths), strict=True):
        table.add_row(*map(Text, row))
    console.width = max(console.width, _total(widths.values()))
    console.print(table)
    return [name for name in columns if name not in widths and name not in empty]


def draw_folding(columns: Sequence[str], texts: Sequence[Sequence[str]]) -> None:
    """Print a table whose last column goes on in further lines."""
    from rich.text import Text

    table = _table()
    for place, (name, *column) in enumerate(zip(columns, *texts, strict=True), start=1):
        table.add_column(name, overflow="fold", no_wrap=place < len(columns), justify=_side(column))
    for row in texts:
        table.add_row(*map(Text, row))
    _console().print(table)


def fitted(wanted: Mapping[str, int], room: int, *, loose: Collection[str], spare: Sequence[str]) -> dict[str, int]:
    """The columns that stay and their widths; spare ones go, in their order, until the rest fits with the loose ones narrow."""
    kept = dict(wanted)
    least = _least(wanted, loose)
    for name in spare:
        if _total([least[name] for name in kept]) <= room:
            break
        kept.pop(name, None)
    left = room - _total([0 if name in loose else width for name, width in kept.items()])
    narrow = sorted((name for name in kept if name in loose), key=lambda name: kept[name])
    for place, name in enumerate(narrow):
        share = left // (len(narrow) - place)
        kept[name] = max(least[name], min(kept[name], share))
        left -= kept[name]
    return kept


def shortened(ids: Sequence[str]) -> list[str]:
    """The beginnings of long ids, as short as still tells them apart; a message can be named by it."""
    whole = {each for each in ids if _UUID.fullmatch(each)}
    length = SHORTEST_ID
    while len({each[:length] for each in whole}) < len(whole):
        length += 1
    return [each[:length] if each in whole else each for each in ids]


def _widths(cells: Mapping[str, Sequence[str]]) -> dict[str, int]:
    from rich.cells import cell_len

    return {name: max(map(cell_len, (name, *column))) for name, column in cells.items()}


def _least(wanted: Mapping[str, int], loose: Collection[str]) -> dict[str, int]:
    return {name: min(width, _NARROWEST) if name in loose else width for name, width in wanted.items()}


def _side(column: Sequence[str]) -> Literal["left", "right"]:
    """Numbers stand to the right, one below the other."""
    given = [cell for cell in column if cell]
    return "right" if given and all(_NUMBER.fullmatch(cell) for cell in given) else "left"


def _table() -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    return Table(box=SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def _total(widths: Collection[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)
