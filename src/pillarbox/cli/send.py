"""`pillarbox send`"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from pillarbox.cli import suggest
from pillarbox.cli.asking import ask
from pillarbox.cli.options import Command, Options, Whole
from pillarbox.cli.output import read_json, show_json
from pillarbox.cli.texts import file_bytes, text_or_stdin
from pillarbox.errors import InvalidInput

CHANNELS = click.Choice(
    ["email", "sms", "push", "webhook", "voice", "whatsapp", "telegram", "discord", "slack", "inapp"]
)
_METHODS = click.Choice(["POST", "PUT", "PATCH", "GET", "DELETE"], case_sensitive=False)
_CATEGORIES = click.Choice(["transactional", "marketing"])
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("send", cls=Command, short_help="Queue a message and print its id.")
@click.argument("channel", type=CHANNELS)
@click.option("--tenant", required=True, shell_complete=suggest.tenants, help="Who sends it.")
@click.option("--to", required=True, help="One mailbox, number, device token or URL.")
@click.option("--subject", help="An email's subject, a notification's title.")
@click.option("--text", help="What it says; - reads it from stdin.")
@click.option("--html", help="An email's HTML; - reads it from stdin.")
@click.option("--body", metavar="JSON", help="A webhook's body; - reads it from stdin.")
@click.option("--data", metavar="JSON", help="What a notification carries for the app.")
@click.option("--platform", help="A device's: ios, android or web.")
@click.option("--from", "from_", help="The sender, the tenant's unless given.")
@click.option("--cc", multiple=True, help="A further recipient; may be repeated.")
@click.option("--bcc", multiple=True, help="One that the others do not see; may be repeated.")
@click.option("--reply-to", help="Where answers go.")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="May be repeated.")
@click.option("--attach", "files", multiple=True, type=_FILE, help="A file to send along; may be repeated.")
@click.option("--method", type=_METHODS, help="A webhook's, POST unless given.")
@click.option("--priority", type=Whole(0, 1000), help="Lower goes first; 100 unless given.")
@click.option("--at", "send_at", metavar="INSTANT", help="Not before, as in 2030-01-31T12:00:00Z.")
@click.option("--expires", "expires_at", metavar="INSTANT", help="Not after.")
@click.option("--max-attempts", type=Whole(1, 20), help="How often it is tried.")
@click.option("--category", type=_CATEGORIES, help="transactional unless given; marketing can be unsubscribed from.")
@click.option("--tag", "tags", multiple=True, help="To find it by; may be repeated.")
@click.option("--key", help="An idempotency key: the same one queues the message once.")
@click.pass_obj
def send(options: Options, /, tenant: str, key: str | None, **given: Any) -> None:
    """Queue a message and print its id; it is on disk when this returns."""
    queued = ask(
        options,
        "POST",
        "/v1/tenants/{tenant}/messages",
        named={"tenant": tenant},
        fields=_fields(**given),
        idempotency_key=key,
    )
    if options.json:
        return show_json(queued)
    click.echo(queued["message_id"])


def _fields(
    *,
    text: str | None,
    html: str | None,
    body: str | None,
    data: str | None,
    from_: str | None,
    headers: Sequence[str],
    files: Sequence[Path],
    **others: Any,
) -> dict[str, Any]:
    """The message as the endpoint takes it."""
    if [text, html, body].count("-") > 1:
        raise InvalidInput("text", "only one of --text, --html and --body can be read from stdin.")
    return others | {
        "text": text_or_stdin("text", text),
        "html": text_or_stdin("html", html),
        "body": read_json("body", text_or_stdin("body", body)),
        "data": read_json("data", data),
        "from": from_,
        "headers": dict(_header(header) for header in headers),
        "attachments": [_attachment(index, file) for index, file in enumerate(files)],
    }


def _header(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidInput("headers", "must be given as NAME=VALUE.")
    return name, value


def _attachment(index: int, file: Path) -> dict[str, str]:
    import base64

    content = file_bytes(f"attachments.{index}", file)
    return {"filename": file.name, "content": base64.b64encode(content).decode()}
