"""`pillarbox inbound`"""

from __future__ import annotations

import sys
from typing import Any

import click

from pillarbox.cli import suggest
from pillarbox.cli.asking import ask
from pillarbox.cli.options import Group, Options, Whole
from pillarbox.cli.output import brief, read_json, show_fields, show_json, show_more, show_table, until, when
from pillarbox.errors import InvalidInput

_INBOUND, _MESSAGE = "/v1/inbound", "/v1/inbound/{id}"
_STATUSES = click.Choice(["pending", "processing", "delivered", "failed", "expired"])
_MESSAGE_TYPES = click.Choice(["text", "voice", "file"])
_ID = Whole(0, 2**63 - 1)


@click.group(cls=Group)
def inbound() -> None:
    """Messages on their way to a session."""


@inbound.command("post")
@click.argument("session_id", metavar="SESSION", shell_complete=suggest.sessions)
@click.argument("text")
@click.option("--origin", default="terminal", show_default=True, help="The platform it comes from.")
@click.option("--source-id", "source_message_id", help="The platform's id: the same one is taken once.")
@click.option("--source-channel-id", help="The platform's conversation.")
@click.option("--type", "message_type", type=_MESSAGE_TYPES, help="text unless given.")
@click.option("--payload", metavar="JSON", help="Anything else the target should get.")
@click.option("--actor-id")
@click.option("--actor-name", help="Who wrote it.")
@click.option("--actor-avatar-url")
@click.pass_obj
def post(options: Options, /, text: str, payload: str | None, **fields: str | None) -> None:
    """Hand in a message and print its id; it is on disk when this returns. With - for TEXT it is read from stdin."""
    content = _standard_input() if text == "-" else text
    if not content.strip() and fields["message_type"] in (None, "text"):
        raise InvalidInput("text", "is empty; say something, or give - to read it from stdin.")
    given = {**fields, "content": content, "payload": read_json("payload", payload)}
    enqueued = ask(options, "POST", _INBOUND, fields=given)
    if options.json:
        return show_json(enqueued)
    click.echo(enqueued["id"])
    if enqueued["duplicate"]:
        click.echo("It had been handed in before.", err=True)


@inbound.command("list")
@click.option("--session", "session_id", shell_complete=suggest.sessions, help="Only those of this session.")
@click.option("--status", type=_STATUSES, help="Only those in this state.")
@click.option("--limit", type=Whole(1, 1000), default=100, show_default=True)
@click.option("--cursor", help="Where an earlier list went on.")
@click.pass_obj
def list_messages(options: Options, /, **fields: object) -> None:
    """List messages."""
    page = ask(options, "GET", _INBOUND, fields=fields)
    if options.json:
        return show_json(page)
    columns = ["message", "session", "seq", "status", "attempts", "when", "error", "content"]
    show_table(
        columns,
        map(_row, page["items"]),
        empty="There are no messages.",
        loose=("error", "content"),
        spare=("seq", "when", "attempts", "error", "content"),
    )
    show_more(page)


@inbound.command("show")
@click.argument("message_id", metavar="ID", type=_ID, shell_complete=suggest.stuck_messages)
@click.pass_obj
def show(options: Options, message_id: int) -> None:
    """Show a message."""
    message = ask(options, "GET", _MESSAGE, named={"id": str(message_id)})
    return show_json(message) if options.json else show_fields(message)


@inbound.command("retry")
@click.argument("message_id", metavar="ID", type=_ID, shell_complete=suggest.stuck_messages)
@click.pass_obj
def retry(options: Options, message_id: int) -> None:
    """Try a waiting message now."""
    _act(options, message_id, "retry")


@inbound.command("expire")
@click.argument("message_id", metavar="ID", type=_ID, shell_complete=suggest.stuck_messages)
@click.pass_obj
def expire(options: Options, message_id: int) -> None:
    """Give a message up, so that the next of its session can go."""
    _act(options, message_id, "expire")


def _act(options: Options, message_id: int, verb: str) -> None:
    message = ask(options, "POST", f"{_MESSAGE}/{verb}", named={"id": str(message_id)})
    if options.json:
        return show_json(message)
    click.echo(f"message {message['id']} is {'due now' if message['status'] == 'failed' else message['status']}")


def _row(message: dict[str, Any]) -> tuple[object, ...]:
    waits = message["status"] in ("pending", "failed")
    return (
        message["id"],
        message["session_id"],
        message["seq"],
        message["status"],
        message["attempt_count"],
        until(message["next_retry_at"]) if waits else when(message["processed_at"]),
        brief(message["last_error"]),
        brief(message["content"]),
    )


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise InvalidInput("text", "must be UTF-8.") from None
