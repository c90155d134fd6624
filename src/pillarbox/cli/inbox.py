"""`pillarbox inbox`"""

from __future__ import annotations

import click

from pillarbox.cli.asking import ask
from pillarbox.cli.options import Group, Options
from pillarbox.cli.output import show_fields, show_json


@click.group(cls=Group)
def inbox() -> None:
    """Keys that consumers handle once."""


@inbox.command("show")
@click.argument("key")
@click.pass_obj
def show(options: Options, key: str) -> None:
    """Show what is known of a key; one that was never seen is `Unknown`."""
    seen = ask(options, "GET", "/v1/inbox/{key}", named={"key": key})
    if options.json:
        return show_json(seen)
    show_fields(seen)
