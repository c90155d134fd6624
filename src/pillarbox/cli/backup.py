"""`pillarbox backup`"""

from __future__ import annotations

import click

from pillarbox.cli.ending import ending_in_order
from pillarbox.cli.options import Command, Options
from pillarbox.cli.output import show_json
from pillarbox.cli.progress import progress


@click.command(cls=Command, short_help="Copy the database while it is in use.")
@click.argument("file", type=click.Path(dir_okay=False))
@click.pass_obj
def backup(options: Options, file: str) -> None:
    """Copy the database to FILE, whole and on disk, while it is in use.

    The key file of an SQLite database goes to FILE.key. On PostgreSQL it has `pg_dump` make the copy, which must be installed.
    """
    from pillarbox.box import DEFAULT_DATABASE, back_up, dump, sqlite_path

    url = options.url or DEFAULT_DATABASE
    database = sqlite_path(url)
    # What is unfinished is not left behind.
    with ending_in_order(), progress("copying") as advance:
        made = dump(url, file) if database is None else back_up(database, file, advance)
    if options.json:
        show_json(made)
    else:
        click.echo(f"{made.file}: {made.bytes} bytes")
    if made.key_file is not None:
        click.echo(
            f"{made.key_file} is the key that opens what is sealed in the backup; keep both, and not in one place.",
            err=True,
        )
    elif database is None:
        click.echo(
            "What is sealed in it opens with secrets.key alone, which is not in it; keep that elsewhere.", err=True
        )
