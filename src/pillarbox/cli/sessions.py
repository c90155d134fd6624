"""`pillarbox sessions`"""

from __future__ import annotations

import shlex

import click

from pillarbox.cli import suggest
from pillarbox.cli.asking import ask
from pillarbox.cli.options import Group, Options, Whole
from pillarbox.cli.output import read_json, show_fields, show_json, show_more, show_table, when
from pillarbox.errors import InvalidInput

_SESSIONS, _SESSION = "/v1/sessions", "/v1/sessions/{session_id}"
_LIFECYCLES = click.Choice(["initializing", "active", "headless", "closed"])


@click.group(cls=Group)
def sessions() -> None:
    """Conversations, and where their messages end."""


@sessions.command("list")
@click.option("--status", "lifecycle_status", type=_LIFECYCLES, help="Only those in this state.")
@click.option("--limit", type=Whole(1, 1000), default=100, show_default=True)
@click.option("--cursor", help="Where an earlier list went on.")
@click.pass_obj
def list_sessions(options: Options, lifecycle_status: str | None, limit: int, cursor: str | None) -> None:
    """List sessions."""
    fields = {"lifecycle_status": lifecycle_status, "limit": limit, "cursor": cursor}
    page = ask(options, "GET", _SESSIONS, fields=fields)
    if options.json:
        return show_json(page)
    rows = [
        (item["session_id"], item["lifecycle_status"], item["target"]["kind"], item["title"], when(item["updated_at"]))
        for item in page["items"]
    ]
    empty = "There are no sessions; `pillarbox sessions open` opens one."
    columns = ["session", "status", "target", "title", "changed"]
    show_table(columns, rows, empty=empty, loose=("title",), spare=("changed", "title", "target"))
    show_more(page)


@sessions.command("open")
@click.argument("session_id", required=False)
@click.option("--target", metavar="JSON", help='Where messages end, as in {"kind": "http", "url": "https://..."}.')
@click.option("--url", metavar="URL", help="The same for an HTTP target.")
@click.option("--command", metavar="LINE", help="The same for a program, as in 'notify --quiet'; no shell runs it.")
@click.option("--title")
@click.option("--status", "lifecycle_status", type=_LIFECYCLES, help="active unless given.")
@click.option("--node", help="The only machine that may deliver.")
@click.option("--agent")
@click.option("--native-session-id", help="The agent's own name for the session.")
@click.pass_obj
def open_session(
    options: Options,
    /,
    target: str | None,
    url: str | None,
    command: str | None,
    **fields: str | None,
) -> None:
    """Open a session and print its id; without SESSION_ID it gets one."""
    chosen = _target(target=target, url=url, command=command)
    session = ask(options, "POST", _SESSIONS, fields={"target": chosen, **fields})
    if options.json:
        return show_json(session)
    click.echo(session["session_id"])


@sessions.command("show")
@click.argument("session_id", shell_complete=suggest.sessions)
@click.pass_obj
def show_session(options: Options, session_id: str) -> None:
    """Show a session and what waits for it."""
    session = ask(options, "GET", _SESSION, named={"session_id": session_id})
    if options.json:
        return show_json(session)
    queue = session.pop("queue")
    head = queue.pop("head")
    counts = {name: queue[name] for name in ("pending", "processing", "failed")}
    show_fields(session | counts | {f"head_{name}": value for name, value in (head or {}).items()})


@sessions.command("close")
@click.argument("session_id", shell_complete=suggest.sessions)
@click.pass_obj
def close_session(options: Options, session_id: str) -> None:
    """Close a session: nothing more is delivered to it."""
    closed = ask(options, "POST", f"{_SESSION}/close", named={"session_id": session_id})
    if options.json:
        return show_json(closed)
    click.echo(f"closed; {closed['expired']} {'message' if closed['expired'] == 1 else 'messages'} expired")


def _target(*, target: str | None, url: str | None, command: str | None) -> object:
    if sum(given is not None for given in (target, url, command)) != 1:
        raise click.UsageError("Give one of --target, --url and --command")
    if url is not None:
        return {"kind": "http", "url": url}
    if command is None:
        return read_json("target", target)
    try:
        return {"kind": "command", "argv": shlex.split(command)}
    except ValueError as error:
        raise InvalidInput("command", f"is not a command line: {error}.") from None
