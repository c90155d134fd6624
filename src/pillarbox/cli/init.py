"""`pillarbox init`"""

from __future__ import annotations

import os
from pathlib import Path

import click

from pillarbox.cli.failures import REFUSED, Failure
from pillarbox.cli.options import Command, Options
from pillarbox.cli.output import show_json


@click.command(cls=Command, short_help="Write a settings file to begin with.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@click.pass_obj
def init(options: Options, force: bool) -> None:
    """Write a settings file, pillarbox.toml or the one of --config, with every setting, its meaning and its default."""
    from pillarbox.settings import settings_template

    file = options.config or Path("pillarbox.toml")
    if file.exists() and not force:
        raise Failure(f"{file} is there already; --force replaces it.", REFUSED)
    _write(file, settings_template())
    if options.json:
        return show_json({"file": str(file)})
    click.echo(f"wrote {file}; nothing is set in it yet")


def _write(file: Path, text: str) -> None:
    """Put the file in place whole; only its owner may read what may come to hold secrets."""
    beside = file.with_name(f"{file.name}.new")
    try:
        beside.unlink(missing_ok=True)
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        beside.replace(file)
    except OSError as error:
        raise Failure(f"{file} cannot be written: {error.strerror}; choose another place with --config.") from error
