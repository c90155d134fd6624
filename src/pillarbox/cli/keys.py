"""`pillarbox keys`"""

from __future__ import annotations

from typing import Any

import click

from pillarbox.cli.asking import ask
from pillarbox.cli.options import Group, Options, Whole
from pillarbox.cli.output import show_json, show_more, show_table, when

_KEYS = "/v1/keys"


@click.group(cls=Group)
def keys() -> None:
    """Keys to the HTTP API."""


@keys.command("create")
@click.option("--tenant", help="The only tenant it is for; without one it is an admin key.")
@click.option("--name", help="What to call it in lists.")
@click.pass_obj
def create(options: Options, tenant: str | None, name: str | None) -> None:
    """Make a key and print it; nobody can read it again."""
    made = ask(options, "POST", _KEYS, fields={"tenant": tenant, "name": name})
    if options.json:
        return show_json(made)
    click.echo(made["key"])
    click.echo(f"Keep it: this is the only time it is shown. Its id is {made['key_id']}.", err=True)


@keys.command("list")
@click.option("--limit", type=Whole(1, 1000), default=100, show_default=True)
@click.option("--cursor", help="Where an earlier list went on.")
@click.pass_obj
def list_keys(options: Options, limit: int, cursor: str | None) -> None:
    """List keys, revoked and expired ones too."""
    page = ask(options, "GET", _KEYS, fields={"limit": limit, "cursor": cursor})
    if options.json:
        return show_json(page)
    columns = ["key", "tenant", "name", "made", "expires", "revoked"]
    show_table(
        columns,
        map(_row, page["items"]),
        empty="There are no keys; `pillarbox keys create` makes one.",
        loose=("name",),
        spare=("made", "name", "expires"),
    )
    show_more(page)


@keys.command("revoke")
@click.argument("key_id", metavar="ID")
@click.pass_obj
def revoke(options: Options, key_id: str) -> None:
    """End a key; a running server notices within a second."""
    answer = ask(options, "DELETE", f"{_KEYS}/{{key_id}}", named={"key_id": key_id})
    if options.json:
        return show_json(answer)
    click.echo("revoked")


def _row(key: dict[str, Any]) -> tuple[object, ...]:
    who = key["tenant"] or "(admin)"
    return (key["key_id"], who, key["name"], when(key["created_at"]), when(key["expires_at"]), when(key["revoked_at"]))
