"""Tables for a terminal of any width: what one copies stays whole, long texts give way."""

from __future__ import annotations

from collections.abc import Collection, Sequence

_GAP = 2
_NARROWEST = 8


def draw(
    columns: Sequence[str], texts: Sequence[Sequence[str]], *, loose: Collection[str], spare: Sequence[str]
) -> None:
    """Print a table as wide as the terminal, or wider where even what must stay whole does not fit."""
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, markup=False, emoji=False)
    wanted = [max(map(cell_len, cells)) for cells in zip(columns, *texts, strict=True)]
    empty = [name for name, *cells in zip(columns, *texts, strict=True) if not any(cells)]
    widths = fitted(dict(zip(columns, wanted, strict=True)), console.width, loose=loose, spare=[*empty, *spare])
    table = Table(box=SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for name, width in widths.items():
        table.add_column(name, width=width, no_wrap=True, overflow="ellipsis")
    places = [columns.index(name) for name in widths]
    for row in texts:
        table.add_row(*(Text(row[place]) for place in places))
    console.width = max(console.width, _total(widths.values()))
    console.print(table)


def draw_folding(columns: Sequence[str], texts: Sequence[Sequence[str]]) -> None:
    """Print a table whose last column goes on in further lines."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for place, name in enumerate(columns, start=1):
        table.add_column(name, overflow="fold", no_wrap=place < len(columns))
    for row in texts:
        table.add_row(*map(Text, row))
    Console(highlight=False, markup=False, emoji=False).print(table)


def fitted(wanted: dict[str, int], room: int, *, loose: Collection[str], spare: Sequence[str]) -> dict[str, int]:
    """The columns that stay and their widths; spare ones go, in their order, until the rest fits with the loose ones narrow."""
    kept = dict(wanted)
    least = {name: min(width, _NARROWEST) if name in loose else width for name, width in wanted.items()}
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


def _total(widths: Collection[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)
