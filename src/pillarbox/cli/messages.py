"""`pillarbox messages`"""

from __future__ import annotations

from typing import Any

import click

from pillarbox.cli import suggest
from pillarbox.cli.asking import ask
from pillarbox.cli.ids import whole_id
from pillarbox.cli.options import Group, Options, Whole
from pillarbox.cli.output import brief, show_fields, show_json, show_more, show_table, until, when
from pillarbox.cli.send import CHANNELS

_MESSAGES, _MESSAGE = "/v1/tenants/{tenant}/messages", "/v1/tenants/{tenant}/messages/{message_id}"
_STATUSES = click.Choice(
    ["pending", "processing", "retrying", "sent", "delivered", "bounced", "failed", "canceled", "expired"]
)
_WAITING = ("pending", "retrying")


@click.group(cls=Group)
def messages() -> None:
    """Messages on their way out."""


@messages.command("list")
@click.option("--tenant", default="", shell_complete=suggest.tenants, help="Only those of this tenant.")
@click.option("--status", type=_STATUSES, help="Only those in this state.")
@click.option("--channel", type=CHANNELS, help="Only those of this channel.")
@click.option("--to", help="Only those to this recipient; needs --tenant.")
@click.option("--since", metavar="INSTANT", help="Only those made then or later, as in 2030-01-31T12:00:00Z.")
@click.option("--until", metavar="INSTANT", help="Only those made before.")
@click.option("--tag", help="Only those with this tag.")
@click.option(
    "--filter", metavar="TEXT", help="Only what matches, as in 'status:failed age:>5m'; in place of the others."
)
@click.option("--limit", type=Whole(1, 1000), default=100, show_default=True)
@click.option("--cursor", help="Where an earlier list went on.")
@click.pass_obj
def list_messages(options: Options, /, tenant: str, **fields: object) -> None:
    """List messages, the newest first."""
    page = ask(options, "GET", _MESSAGES, named={"tenant": tenant}, fields=fields)
    if options.json:
        return show_json(page)
    columns = ["message", "tenant", "channel", "to", "status", "attempts", "when", "error", "subject"]
    show_table(
        columns,
        map(_row, page["items"]),
        empty="There are no messages.",
        loose=("to", "error", "subject"),
        spare=("when", "attempts", "channel", "tenant", "subject", "error", "to"),
        ids=("message",),
    )
    show_more(page)


@messages.command("show")
@click.argument("message_id", metavar="ID", shell_complete=suggest.messages)
@click.option("--tenant", default="", shell_complete=suggest.tenants, help="Only if it is this tenant's.")
@click.pass_obj
def show(options: Options, message_id: str, tenant: str) -> None:
    """Show a message, its attempts and its events."""
    named = {"tenant": tenant, "message_id": whole_id(options, message_id)}
    message = ask(options, "GET", _MESSAGE, named=named)
    return show_json(message) if options.json else show_fields(message)


@messages.command("retry")
@click.argument("message_id", metavar="ID", shell_complete=suggest.messages)
@click.option("--tenant", default="", shell_complete=suggest.tenants, help="Only if it is this tenant's.")
@click.pass_obj
def retry(options: Options, message_id: str, tenant: str) -> None:
    """Queue a failed, expired or canceled message again, at once."""
    _act(options, message_id, tenant, "retry")


@messages.command("cancel")
@click.argument("message_id", metavar="ID", shell_complete=suggest.messages)
@click.option("--tenant", default="", shell_complete=suggest.tenants, help="Only if it is this tenant's.")
@click.pass_obj
def cancel(options: Options, message_id: str, tenant: str) -> None:
    """Cancel a message while no attempt is running."""
    _act(options, message_id, tenant, "cancel")


def _act(options: Options, message_id: str, tenant: str, verb: str) -> None:
    named = {"tenant": tenant, "message_id": whole_id(options, message_id)}
    message = ask(options, "POST", f"{_MESSAGE}/{verb}", named=named)
    if options.json:
        return show_json(message)
    click.echo(f"message {message['message_id']} is {message['status']}")


def _row(message: dict[str, Any]) -> tuple[object, ...]:
    waits = message["status"] in _WAITING
    return (
        message["message_id"],
        message["tenant_id"],
        message["channel"],
        brief(message["to_address"]),
        message["status"],
        message["attempt_count"],
        until(message["next_attempt_at"]) if waits else when(message["updated_at"]),
        brief(message["error_message"]),
        brief(message["subject"]),
    )
