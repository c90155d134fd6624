"""`pillarbox bench`"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import click

from pillarbox.cli.ending import ending_in_order
from pillarbox.cli.options import Command, Options
from pillarbox.cli.output import show_json, show_table

if TYPE_CHECKING:
    from pillarbox.cli.measuring import Figures

_SHORTEST, _LONGEST = 1.0, 600.0
_COLUMNS = {
    "enqueue_one_caller": "enqueue/s, 1 caller",
    "enqueue_100_callers": "100 callers",
    "drain": "drain/s",
    "latency_p50_ms": "idle p50 ms",
    "latency_p99_ms": "idle p99 ms",
}


class Seconds(click.FloatRange):
    """A length of time within bounds."""

    name = "seconds"


@click.command(cls=Command, short_help="Measure what this machine can do.")
@click.option(
    "--seconds",
    type=Seconds(_SHORTEST, _LONGEST),
    default=10.0,
    show_default=True,
    help="How long to measure in all, about.",
)
@click.pass_obj
def bench(options: Options, seconds: float) -> None:
    """Measure what this machine and this database can do: enqueue, drain, and latency when idle.

    Your rows are not touched. On SQLite it works in a new file in a folder `.pillarbox_bench_...` beside the database, on
    PostgreSQL in a new schema `pillarbox_bench_...`, and removes it at the end, also when it is interrupted or terminated;
    what one that was killed has left, the next one removes. It does load the disk and the server meanwhile.
    """
    try:
        with ending_in_order(), _scratch(options) as url, _progress(seconds, quiet=options.json) as advance:
            figures = asyncio.run(_measure(options, url, seconds, advance))
    except (KeyboardInterrupt, SystemExit):
        click.echo("Stopped; nothing is left behind.", err=True)
        raise
    database = "sqlite" if url.startswith("sqlite") else "postgresql"
    if options.json:
        return show_json({"database": database, "seconds": seconds, "pipes": figures})
    rows = [(name, *(_number(found.get(column)) for column in _COLUMNS)) for name, found in figures.items()]
    show_table([database, *_COLUMNS.values()], rows, empty="")
    click.echo("On disk before it counts. An inbox row is one begin and one mark.", err=True)


async def _measure(options: Options, url: str, seconds: float, advance: Callable[[int, int], None]) -> Figures:
    from pillarbox.cli.measuring import measure

    return await measure(url, options.settings(), seconds=seconds, advance=advance)


def _scratch(options: Options) -> AbstractContextManager[str]:
    from pillarbox.box import DEFAULT_DATABASE, scratch_file, scratch_schema, sqlite_path
    from pillarbox.errors import InvalidInput

    url = options.url or DEFAULT_DATABASE
    file = sqlite_path(url)
    if file == ":memory:":
        raise InvalidInput("database", "a database in memory says nothing about a disk; name a file.")
    if file is None and url.partition("://")[0] not in ("postgresql", "postgres", "cockroachdb"):
        raise InvalidInput("database", "must be sqlite:///file.db, sqlite:////absolute/file.db or postgresql://...")
    return scratch_schema(url) if file is None else scratch_file(file)


def _number(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


@contextmanager
def _progress(seconds: float, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr where that is a terminal, else a line that says what is going on, unless a program asked."""
    if not sys.stderr.isatty():
        if not quiet:
            click.echo(f"Measuring for about {seconds:g} s ...", err=True)
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("measuring", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
