"""`pillarbox migrate`, `status` and `prune`"""

from __future__ import annotations

import asyncio
from typing import Any

import click

from pillarbox.cli.asking import look
from pillarbox.cli.options import Command, Options
from pillarbox.cli.output import show_json, show_table, span
from pillarbox.cli.program import with_database
from pillarbox.cli.progress import progress


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


@click.command(cls=Command, short_help="Show what waits, pipe by pipe.")
@click.pass_obj
def status(options: Options) -> None:
    """Show what waits, pipe by pipe, and say so if nobody is there to deliver it."""
    pipes: dict[str, dict[str, Any]]
    pipes, nodes = look(options, "/v1/status", "/v1/nodes")
    if options.json:
        return show_json(pipes)
    rows = [_row(name, dict(pipe)) for name, pipe in pipes.items()]
    show_table(["pipe", "pending", "processing", "to retry", "oldest", "also"], rows, empty="")
    if not any(node["state"] == "alive" and node["concurrency"] for node in nodes["items"]):
        said = "Nobody delivers: no process is at work on this database. Start `pillarbox serve` or `pillarbox worker`."
        click.echo(with_database(said, options.database), err=True)


@click.command(cls=Command, short_help="Delete what has been kept long enough.")
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
    async with options.open(make=False) as box:
        with progress("pruning") as advance:
            while more:
                step, more = await box.prune()
                pruned += step
                # Nobody knows beforehand how much there is.
                advance(pruned, None)
    return pruned


def _row(name: str, pipe: dict[str, Any]) -> tuple[object, ...]:
    """What every queue counts, each in its column, and in one more whatever else this one does."""
    queued = [pipe.pop(count, None) for count in ("pending", "processing", "failed")]
    ages = {what: pipe.pop(what) for what in tuple(pipe) if what.endswith("_age_seconds")}
    oldest = ages.get("oldest_age_seconds")
    also = ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in pipe.items() if count)
    return (name, *queued, "" if oldest is None else span(oldest), also)
