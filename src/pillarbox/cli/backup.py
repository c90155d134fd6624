"""`pillarbox backup` and `restore`"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import click

from pillarbox.cli.confirming import confirm
from pillarbox.cli.options import Command, Options
from pillarbox.cli.output import show_json, show_table, when
from pillarbox.cli.progress import progress
from pillarbox.errors import Refused

if TYPE_CHECKING:
    from pillarbox.box import Plan

_IN_FLIGHT = ("processing", "sending")


@click.command(cls=Command, short_help="Copy the SQLite database while it is in use.")
@click.argument("file", type=click.Path(dir_okay=False))
@click.pass_obj
def backup(options: Options, file: str) -> None:
    """Copy the SQLite database to FILE, whole and on disk, while it is in use; its key file goes to FILE.key."""
    from pillarbox.box import back_up

    database = _sqlite_file(options, f"pg_dump --format=custom --file={file} '{{url}}'")
    with progress("copying") as advance:
        made = back_up(database, file, advance)
    if options.json:
        show_json(made)
    else:
        click.echo(f"{made.file}: {made.bytes} bytes")
    if made.key_file is not None:
        click.echo(
            f"{made.key_file} is the key that opens what is sealed in the backup; keep both, and not in one place.",
            err=True,
        )


@click.command(cls=Command, short_help="Put a backup in the database's place.")
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def restore(options: Options, file: str, yes: bool) -> None:
    """Put the backup FILE in the place of the SQLite database, which nobody may use; says before what would be resent."""
    from pillarbox.box import plan_restore
    from pillarbox.box import restore as put_in_place

    database = _sqlite_file(options, f"pg_restore --clean --dbname='{{url}}' {file}")
    plan = plan_restore(file, database)
    if not options.json:
        _show(plan)
    if not yes:
        confirm(f"Put {file} in the place of {database}?")
    kept = put_in_place(plan)
    if options.json:
        return show_json(asdict(plan) | {"kept": kept})
    click.echo(f"restored {database}" + ("" if kept is None else f"; the old one is {kept}"))


def _show(plan: Plan) -> None:
    rows = [(each.pipe, each.state, each.count, when(each.oldest), when(each.newest)) for each in plan.waiting]
    show_table(["pipe", "state", "waiting", "oldest", "newest"], rows, empty="Nothing waits in this backup.")
    in_flight = sum(each.count for each in plan.waiting if each.state in _IN_FLIGHT)
    if in_flight:
        click.echo(
            f"{in_flight} were on their way when the backup was made and may be delivered a second time.", err=True
        )
    if plan.ended_since:
        click.echo(f"{plan.ended_since} have ended since and will be delivered a second time.", err=True)
    if plan.missing:
        click.echo(f"{plan.missing} came in after the backup and stay only in the old database.", err=True)


def _sqlite_file(options: Options, instead: str) -> str:
    """The file of the database, or what to use where it is a server's."""
    from pillarbox.box import DEFAULT_DATABASE, sqlite_path

    url = options.url or DEFAULT_DATABASE
    file = sqlite_path(url)
    if file is None:
        raise Refused(f"PostgreSQL brings its own tools; run `{instead.format(url=_shown(url))}`.")
    return file


def _shown(url: str) -> str:
    """The server's address without a password and without our own options."""
    parts = urlsplit(url)
    user = f"{parts.username}@" if parts.username else ""
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(("postgresql", user + host, parts.path, "", ""))
