"""`pillarbox hook`: the help of the receiver, and wiring agents to it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import click

from pillarbox.__main__ import is_for_people, receive
from pillarbox.cli.failures import WRONG_USAGE, Failure
from pillarbox.cli.options import Group, Options
from pillarbox.cli.output import show_json
from pillarbox.text import printable

if TYPE_CHECKING:
    from pillarbox.hooks.agents.known import Agent
    from pillarbox.hooks.agents.wiring import Change

# A change is shown whole: what is cut off could not be agreed to.
_WIDEST = 100_000_000
_GIVEN = "pillarbox.hook.given"
_AGENT = click.argument("agent", type=click.Choice(["claude", "codex", "gemini"]))
_SETTINGS = click.option(
    "--settings",
    "file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The agent's settings, your own unless given.",
)
_YES = click.option("--yes", is_flag=True, help="Do it without asking.")


class Receiver(Group):
    """A group that takes every word which is none of its commands as the receiver does: in silence and with success."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if is_for_people(args):
            return super().parse_args(ctx, args)
        ctx.meta[_GIVEN] = list(args)
        return super().parse_args(ctx, [])


@click.group(cls=Receiver, invoke_without_command=True)
@click.pass_context
def hook(context: click.Context) -> None:
    """Store an agent's event, or have an agent send its events here.

    \b
    pillarbox hook [--agent claude|codex|gemini] [--database URL] [--spool-dir DIR] < event.json

    This is what agents run: it reads one event as JSON on stdin, stores it, prints nothing and exits with 0, whatever
    happens. PILLARBOX_SESSION names the session; else it is the one with the agent's own session id, or a new one.
    A database that cannot be reached within a second is not waited for: the event goes to the spool, and from there to
    the database when `pillarbox serve` or `pillarbox worker` runs.
    """
    if (given := context.meta.get(_GIVEN)) is not None:
        named = context.find_root().ensure_object(Options).database
        receive([*(["--database", named] if named else []), *given])


@hook.command("install")
@_AGENT
@_SETTINGS
@_YES
@click.pass_obj
def install(options: Options, agent: str, file: Path | None, yes: bool) -> None:
    """Have an agent send its events here; shows what it changes in the agent's settings first."""
    from pillarbox.hooks.agents import wiring
    from pillarbox.hooks.agents.known import AGENTS

    known = AGENTS[agent]
    command, hidden = _command(options, known)
    change = wiring.install(known, command, file)
    done = _carry_out([change], json=options.json, yes=yes)
    notes = wiring.cautions(known, change.path) if change.is_needed else []
    if hidden:
        notes.append(
            "The database's URL holds a password and was not written down: set PILLARBOX_DATABASE where the agent runs."
        )
    if options.json:
        return show_json({"agent": agent, **done, "command": command, "notes": notes})
    click.echo(f"{known.title} sends its events here." if change.is_needed else f"{known.title} is set up already.")
    for note in notes:
        click.echo(note, err=True)


@hook.command("uninstall")
@_AGENT
@_SETTINGS
@_YES
@click.pass_obj
def uninstall(options: Options, agent: str, file: Path | None, yes: bool) -> None:
    """Take back what `install` wrote, and nothing else; shows what it changes first."""
    from pillarbox.hooks.agents import wiring
    from pillarbox.hooks.agents.known import AGENTS

    known = AGENTS[agent]
    done = _carry_out(wiring.uninstall(known, file), json=options.json, yes=yes)
    if options.json:
        return show_json({"agent": agent, **done})
    click.echo(f"{known.title} sends nothing here{'' if done['changed'] else ', and did not before'}.")


def _carry_out(changes: list[Change], *, json: bool, yes: bool) -> dict[str, Any]:
    """Show the changes, ask where there is somebody to ask, and make them."""
    from pillarbox.hooks.agents.files import replace

    needed = [change for change in changes if change.is_needed]
    for change in needed:
        for line in change.diff():
            click.echo(printable(line.expandtabs(4), _WIDEST), err=json)
    if needed and not yes:
        if not sys.stdin.isatty():
            raise Failure(
                "Nothing was changed, for there is nobody to ask; add --yes to make this change.", WRONG_USAGE
            )
        if not click.confirm("Make this change?", err=True):
            raise Failure("Nothing was changed.")
    copies = [replace(change.path, change.before, change.after) for change in needed]
    return {
        "changed": bool(needed),
        "settings": [str(change.path.absolute()) for change in needed or changes],
        "backups": [str(copy.absolute()) for copy in copies if copy],
    }


def _command(options: Options, agent: Agent) -> tuple[str, bool]:
    """What the agent is to run, and whether the database was left out of it."""
    from pillarbox.box import DEFAULT_DATABASE, sqlite_path
    from pillarbox.errors import InvalidInput
    from pillarbox.hooks.agents.known import command_line
    from pillarbox.hooks.spool import default_spool_dir

    url = options.url or DEFAULT_DATABASE
    if (file := sqlite_path(url)) == ":memory:":
        raise InvalidInput("database", "a database in memory cannot be reached by an agent; name a file.")
    if file is not None:
        url = f"sqlite:///{os.path.abspath(file)}"
    spool_dir = Path(options.settings().hooks.spool_dir or default_spool_dir(url)).absolute()
    hidden = file is None and _holds_password(url)
    return command_line(_program(), agent, database=None if hidden else url, spool_dir=spool_dir), hidden


def _holds_password(url: str) -> bool:
    parts = urlsplit(url)
    return parts.password is not None or bool({"password", "sslpassword"} & parse_qs(parts.query).keys())


def _program() -> list[str]:
    """How this installation is run from anywhere; never with modules of the folder that an agent works in."""
    script = Path(sys.executable).parent / "pillarbox"
    return [str(script)] if os.access(script, os.X_OK) else [sys.executable, "-P", "-m", "pillarbox"]
