"""`pillarbox migrate`, `status` and `prune`"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from pillarbox.cli.asking import ask
from pillarbox.cli.options import Command, Options
from pillarbox.cli.output import show_json, show_table


@click.command(cls=Command)
@click.pass_obj
def migrate(options: Options) -> None:
    """Bring the schema up to date and say what was applied."""
    applied = asyncio.run(_migrate(options))
    if options.json:
        return show_json({"applied": applied})
    for name in applied:
        click.echo(f"applied {name}")
    if not applied:
        click.echo("The schema is up to date.")


@click.command(cls=Command)
@click.pass_obj
def status(options: Options) -> None:
    """Show what waits, pipe by pipe."""
    pipes: dict[str, dict[str, Any]] = ask(options, "GET", "/v1/status")
    if options.json:
        return show_json(pipes)
    rows = [(name, what, _rounded(count)) for name, pipe in pipes.items() for what, count in pipe.items()]
    show_table(["pipe", "what", "count"], rows, empty="")


@click.command(cls=Command)
@click.pass_obj
def prune(options: Options) -> None:
    """Delete whatever has been kept long enough, until nothing is left to delete."""
    pruned = asyncio.run(_prune(options))
    if options.json:
        return show_json({"pruned": pruned})
    click.echo(f"pruned {pruned} messages and keys")


async def _migrate(options: Options) -> list[str]:
    async with options.open(migrate=False) as box:
        return await box.migrate()


async def _prune(options: Options) -> int:
    pruned, more = 0, True
    async with options.open() as box:
        with _progress() as advance:
            while more:
                step, more = await box.prune()
                pruned += step
                advance(step)
    return pruned


@contextmanager
def _progress() -> Iterator[Callable[[int], None]]:
    """A bar on stderr where that is a terminal; nobody knows beforehand how much there is."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("pruning"),
        BarColumn(),
        TextColumn("{task.completed} messages and keys"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("pruning", total=None)
        yield lambda count: progress.advance(task, count)


def _rounded(value: object) -> object:
    return f"{value:.0f}" if isinstance(value, float) else value
