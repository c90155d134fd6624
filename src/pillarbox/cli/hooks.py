"""`pillarbox hooks`"""

from __future__ import annotations

from typing import Any

import click

from pillarbox.cli import suggest
from pillarbox.cli.asking import ask
from pillarbox.cli.options import Group, Options, Whole
from pillarbox.cli.output import brief, show_fields, show_json, show_more, show_table, until, when

_HOOKS, _HOOK = "/v1/hooks", "/v1/hooks/{id}"
_STATUSES = click.Choice(["pending", "processing", "delivered", "failed", "superseded", "dead"])
_ID = Whole(0, 2**63 - 1)


@click.group(cls=Group)
def hooks() -> None:
    """Events of agents, and what became of them."""


@hooks.command("list")
@click.option("--session", "session_id", shell_complete=suggest.sessions, help="Only those of this session.")
@click.option("--status", type=_STATUSES, help="Only those in this state.")
@click.option("--limit", type=Whole(1, 1000), default=100, show_default=True)
@click.option("--cursor", help="Where an earlier list went on.")
@click.pass_obj
def list_events(options: Options, /, **fields: object) -> None:
    """List events."""
    page = ask(options, "GET", _HOOKS, fields=fields)
    if options.json:
        return show_json(page)
    columns = ["event", "session", "seq", "type", "status", "attempts", "when", "superseded by", "error"]
    show_table(
        columns,
        map(_row, page["items"]),
        empty="There are no events.",
        loose=("error",),
        spare=("seq", "superseded by", "when", "attempts", "error"),
    )
    show_more(page)


@hooks.command("show")
@click.argument("event_id", metavar="ID", type=_ID)
@click.pass_obj
def show(options: Options, event_id: int) -> None:
    """Show an event."""
    event = ask(options, "GET", _HOOK, named={"id": str(event_id)})
    return show_json(event) if options.json else show_fields(event)


@hooks.command("retry")
@click.argument("event_id", metavar="ID", type=_ID)
@click.pass_obj
def retry(options: Options, event_id: int) -> None:
    """Try a waiting event now; a dead one goes again, behind what its session has waiting."""
    event = ask(options, "POST", f"{_HOOK}/retry", named={"id": str(event_id)})
    if options.json:
        return show_json(event)
    click.echo(f"event {event['id']} is {'due now' if event['status'] == 'failed' else event['status']}")


def _row(event: dict[str, Any]) -> tuple[object, ...]:
    waits = event["status"] in ("pending", "failed")
    return (
        event["id"],
        event["session_id"],
        event["seq"],
        event["event_type"],
        event["status"],
        event["attempt_count"],
        until(event["next_attempt_at"]) if waits else when(event["delivered_at"]),
        event["superseded_by"],
        brief(event["last_error"]),
    )
