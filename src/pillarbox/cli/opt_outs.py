"""`pillarbox opt-outs` and `forget`"""

from __future__ import annotations

from typing import Any

import click

from pillarbox.cli import suggest
from pillarbox.cli.asking import ask
from pillarbox.cli.options import Command, Group, Options, Whole
from pillarbox.cli.output import brief, show_json, show_more, show_table, when
from pillarbox.cli.send import CHANNELS

_OPT_OUTS = "/v1/tenants/{tenant}/opt-outs"
_KINDS = click.Choice([*CHANNELS.choices, "all"])


@click.group("opt-outs", cls=Group)
def opt_outs() -> None:
    """Contacts that are not written to."""


@opt_outs.command("add")
@click.argument("contact")
@click.option("--tenant", required=True, shell_complete=suggest.tenants, help="Whose messages they do not want.")
@click.option("--channel", type=_KINDS, default="all", show_default=True)
@click.option("--reason", help="Why.")
@click.pass_obj
def add(options: Options, contact: str, tenant: str, channel: str, reason: str | None) -> None:
    """Never write to a contact again, and print the id of the opt-out."""
    fields = {"contact": contact, "channel": channel, "reason": reason}
    added = ask(options, "POST", _OPT_OUTS, named={"tenant": tenant}, fields=fields)
    if options.json:
        return show_json(added)
    click.echo(added["id"])


@opt_outs.command("list")
@click.option("--tenant", required=True, shell_complete=suggest.tenants, help="Whose.")
@click.option("--limit", type=Whole(1, 1000), default=100, show_default=True)
@click.option("--cursor", help="Where an earlier list went on.")
@click.pass_obj
def list_opt_outs(options: Options, tenant: str, limit: int, cursor: str | None) -> None:
    """List opt-outs."""
    page = ask(options, "GET", _OPT_OUTS, named={"tenant": tenant}, fields={"limit": limit, "cursor": cursor})
    if options.json:
        return show_json(page)
    columns = ["opt-out", "contact", "channel", "made", "reason"]
    show_table(
        columns,
        map(_row, page["items"]),
        empty="Nobody has opted out.",
        loose=("reason",),
        spare=("reason", "made", "channel"),
    )
    show_more(page)


@opt_outs.command("remove")
@click.argument("opt_out_id", metavar="ID")
@click.option("--tenant", required=True, shell_complete=suggest.tenants, help="Whose.")
@click.pass_obj
def remove(options: Options, opt_out_id: str, tenant: str) -> None:
    """Let a contact be written to again."""
    named = {"tenant": tenant, "opt_out_id": opt_out_id}
    answer = ask(options, "DELETE", f"{_OPT_OUTS}/{{opt_out_id}}", named=named)
    if options.json:
        return show_json(answer)
    click.echo("removed")


@click.command(cls=Command, short_help="Erase a contact and what it was sent.")
@click.argument("contact")
@click.option("--tenant", required=True, shell_complete=suggest.tenants, help="Who is to forget them.")
@click.pass_obj
def forget(options: Options, contact: str, tenant: str) -> None:
    """Take a contact and what it was sent out of everything that is kept; an opt-out goes on to hold."""
    done = ask(options, "POST", "/v1/tenants/{tenant}/forget", named={"tenant": tenant}, fields={"contact": contact})
    if options.json:
        return show_json(done)
    count = done["forgotten"]
    click.echo(f"forgotten in {count} message{'' if count == 1 else 's'}")


def _row(opt_out: dict[str, Any]) -> tuple[object, ...]:
    contact = "(forgotten)" if opt_out["contact"] is None else opt_out["contact"]
    return (opt_out["id"], contact, opt_out["channel"], when(opt_out["created_at"]), brief(opt_out["reason"]))
