"""`pillarbox tenants`"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pillarbox.cli import suggest
from pillarbox.cli.asking import ask
from pillarbox.cli.failures import REFUSED, Failure
from pillarbox.cli.options import Group, Options, Whole
from pillarbox.cli.output import read_json, show_fields, show_json, show_more, show_table, when
from pillarbox.cli.texts import file_text, stdin_text
from pillarbox.errors import InvalidInput, NotFound

_TENANTS, _TENANT = "/v1/tenants", "/v1/tenants/{tenant}"


@click.group(cls=Group)
def tenants() -> None:
    """Who sends messages, and by which providers."""


@tenants.command("set")
@click.argument("tenant", shell_complete=suggest.tenants)
@click.argument("file", required=False, type=click.Path(dir_okay=False, allow_dash=True))
@click.pass_obj
def set_tenant(options: Options, tenant: str, file: str | None) -> None:
    """Make a tenant, or replace what is known of it by the JSON in FILE; - reads it from stdin.

    Without a FILE a new tenant has nothing of its own and uses the providers of the settings; one that has is left as it is.
    """
    if file is None:
        _refuse_to_empty(options, tenant)
    fields = {} if file is None else _read(file)
    made = ask(options, "PUT", _TENANT, named={"tenant": tenant}, fields=fields)
    if options.json:
        return show_json(made)
    click.echo(made["tenant_id"])


@tenants.command("list")
@click.option("--limit", type=Whole(1, 1000), default=100, show_default=True)
@click.option("--cursor", help="Where an earlier list went on.")
@click.pass_obj
def list_tenants(options: Options, limit: int, cursor: str | None) -> None:
    """List tenants."""
    page = ask(options, "GET", _TENANTS, fields={"limit": limit, "cursor": cursor})
    if options.json:
        return show_json(page)
    columns = ["tenant", "name", "providers", "changed"]
    show_table(
        columns,
        map(_row, page["items"]),
        empty="There are no tenants; `pillarbox tenants set` makes one.",
        loose=("name", "providers"),
        spare=("changed", "name", "providers"),
    )
    show_more(page)


@tenants.command("show")
@click.argument("tenant", shell_complete=suggest.tenants)
@click.pass_obj
def show(options: Options, tenant: str) -> None:
    """Show a tenant; its credentials are references, never secrets."""
    found = ask(options, "GET", _TENANT, named={"tenant": tenant})
    return show_json(found) if options.json else show_fields(found)


@tenants.command("delete")
@click.argument("tenant", shell_complete=suggest.tenants)
@click.pass_obj
def delete(options: Options, tenant: str) -> None:
    """Delete a tenant that has nothing waiting."""
    answer = ask(options, "DELETE", _TENANT, named={"tenant": tenant})
    if options.json:
        return show_json(answer)
    click.echo("deleted")


def _refuse_to_empty(options: Options, tenant: str) -> None:
    """Nobody who wants to make sure that a tenant is there wants to lose its providers."""
    if not options.is_there():
        return
    try:
        known = ask(options, "GET", _TENANT, named={"tenant": tenant})
    except NotFound:
        return
    if any(known[part] for part in ("name", "providers", "settings", "rate")):
        raise Failure(f"{tenant} is there already; give a FILE or - to replace what is known of it.", REFUSED)


def _read(file: str) -> dict[str, Any]:
    if file.lstrip().startswith("{"):
        raise InvalidInput("file", "must be the name of a file; give - and pipe the JSON to it.")
    text = stdin_text("file") if file == "-" else file_text("file", Path(file))
    value = read_json("file", text)
    if not isinstance(value, dict):
        raise InvalidInput("file", "must hold a JSON object, as PUT /v1/tenants/{tenant} takes it.")
    return value


def _row(tenant: dict[str, Any]) -> tuple[object, ...]:
    carriers = ", ".join(f"{channel}: {config['provider']}" for channel, config in tenant["providers"].items())
    return (tenant["tenant_id"], tenant["name"], carriers, when(tenant["updated_at"]))
