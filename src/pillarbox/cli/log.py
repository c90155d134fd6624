"""`pillarbox log` and `act`"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from pillarbox.cli.asking import ask, operator
from pillarbox.cli.confirming import confirm
from pillarbox.cli.options import Command, Options, Whole
from pillarbox.cli.output import brief, show_json, show_more, show_table, until, when
from pillarbox.cli.progress import progress

if TYPE_CHECKING:
    from pillarbox.operators.operations import Operation

_LOOK_EVERY = 0.1


@click.command(cls=Command)
@click.option("--filter", metavar="TEXT", help="Only what matches, as in 'status:failed channel:sms age:>5m'.")
@click.option("--limit", type=Whole(1, 1000), default=100, show_default=True)
@click.option("--cursor", help="Where an earlier list went on.")
@click.pass_obj
def log(options: Options, /, **fields: object) -> None:
    """List messages and events of all pipes, the newest first."""
    page = ask(options, "GET", "/v1/messages", fields=fields)
    if options.json:
        return show_json(page)
    columns = ["made", "pipe", "id", "status", "where", "attempts", "next", "error", "summary"]
    show_table(
        columns,
        map(_row, page["items"]),
        empty="Nothing matches.",
        loose=("where", "error", "summary"),
        spare=("made", "next", "attempts", "pipe", "id", "error", "where"),
        ids=("id",),
    )
    show_more(page)


@click.command(cls=Command, short_help="Retry, cancel or expire all that match.")
@click.argument("action", type=click.Choice(["retry", "cancel", "expire"]))
@click.option("--filter", "wanted", metavar="TEXT", required=True, help="Which, as in 'status:failed tenant:acme'.")
@click.option("--dry-run", is_flag=True, help="Only count.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def act(options: Options, action: str, wanted: str, dry_run: bool, yes: bool) -> None:
    """Retry, cancel or expire all messages that match; says first how many there are."""
    count = ask(options, "POST", "/v1/messages/actions", fields={"action": action, "filter": wanted, "dry_run": True})
    shown = f"{'' if count['exact'] else 'more than '}{count['matching']}"
    if dry_run:
        return show_json(count) if options.json else click.echo(shown)
    if not yes:
        confirm(f"{action.capitalize()} {shown} {'message or event' if shown == '1' else 'messages and events'}?")
    ended = asyncio.run(_act(options, action, wanted))
    if options.json:
        return show_json(ended)
    reasons = ", ".join(f"{number} {reason}" for reason, number in ended.refusals.items())
    click.echo(f"{ended.done} done, {ended.refused} left as they were{f' ({reasons})' if reasons else ''}")


async def _act(options: Options, action: Any, wanted: str) -> Operation:
    """Begin it and see it through; if this is interrupted it goes on wherever workers run."""
    from pillarbox.audit import acting_as
    from pillarbox.filters import parse_filter

    async with options.open(make=False) as box:
        with acting_as(operator()):
            operation = await box.operations.start(action, parse_filter(wanted))
        with progress(action) as advance:
            while operation.state == "running":
                advance(operation.done + operation.refused, operation.total if operation.exact else None)
                await asyncio.sleep(_LOOK_EVERY)
                operation = await box.operations.get(operation.operation_id)
        return operation


def _row(item: dict[str, Any]) -> tuple[object, ...]:
    where = f"{item['tenant_id']} {item['channel']} {item['to_address'] or ''}" if item["tenant_id"] else None
    return (
        when(item["created_at"]),
        item["pipe"],
        item["id"],
        item["status"],
        brief(where or item["session_id"]),
        item["attempt_count"],
        until(item["next_attempt_at"]),
        brief(item["error"]),
        brief(item["summary"]),
    )
