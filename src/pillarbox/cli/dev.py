"""`pillarbox dev`: everything in one process, with something to look at."""

from __future__ import annotations

import asyncio
import os
import secrets
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from pillarbox.cli.options import Command, Options, Whole
from pillarbox.cli.output import show_json
from pillarbox.cli.running import keep_running, run_process
from pillarbox.cli.serve import configured_admin_key
from pillarbox.errors import NotFound, Unavailable
from pillarbox.text import printable

if TYPE_CHECKING:
    from pillarbox.box import Pillarbox
    from pillarbox.inbound import InboundMessage
    from pillarbox.settings import Settings

_HOST, _FIRST_PORT, _LAST_PORT = "127.0.0.1", 8025, 8125
_DATABASE = "sqlite:///pillarbox-dev.db"
_ECHO = {"kind": "python", "name": "echo"}
_AWAY = {"kind": "http", "url": "http://127.0.0.1:9/"}
_TENANT = "demo"
_SANDBOX = {"provider": "sandbox"}


@click.command(cls=Command)
@click.option("--port", type=Whole(0, 65_535), help="The port, the first free one from 8025 unless given.")
@click.pass_obj
def dev(options: Options, port: int | None) -> None:
    """Run everything in one process on SQLite, with demo data; nothing leaves this machine."""
    settings = _with_sandbox(options.settings())
    options.database = options.url or _DATABASE

    async def work(stop: asyncio.Event) -> None:
        async with options.open(settings) as box:
            await _run(box, stop, options, port)

    run_process(settings, work)


async def _run(box: Pillarbox, stop: asyncio.Event, options: Options, port: int | None) -> None:
    from pillarbox.api.login import login_token
    from pillarbox.api.server import bind, serve

    chosen = _free_port() if port is None else port
    listening = bind(_HOST, chosen)
    box.inbound.target(_ECHO["name"])(_echo)
    if not await box.sessions.list(limit=1):
        await add_demo_data(box)
    if not await box.tenants.list(limit=1):
        await _add_demo_tenant(box)
    admin_key = configured_admin_key() or secrets.token_urlsafe(32)
    commands = await _commands(box, options.database or _DATABASE)

    def ready(address: str) -> None:
        _announce(f"{address}/login?token={login_token(admin_key)}", admin_key, commands, options)

    serving = serve(box, host=_HOST, port=chosen, admin_key=admin_key, ready=ready, listening=listening)
    await keep_running(box, stop, serving=serving, workers=True)


async def add_demo_data(box: Pillarbox) -> None:
    """A session that answers, and one whose target is away."""
    await box.sessions.open(session_id="echo", title="Prints what it is told", target=_ECHO)
    await box.inbound.enqueue(session_id="echo", origin="terminal", content="Hello from Pillarbox.")
    await box.sessions.open(session_id="away", title="Nobody is at home", target=_AWAY)
    await box.inbound.enqueue(session_id="away", origin="terminal", content="Is anybody there?")


async def _add_demo_tenant(box: Pillarbox) -> None:
    """A tenant whose messages stay on this machine, whatever the settings say of the others."""
    from pillarbox.outbound.model import CHANNELS, NewTenant

    await box.tenants.put(_TENANT, NewTenant(name="Demo", providers=dict.fromkeys(CHANNELS, _SANDBOX)))


def _with_sandbox(settings: Settings) -> Settings:
    """Channels for which no provider is set go to the sandbox."""
    from msgspec.structs import replace

    from pillarbox.outbound.model import CHANNELS

    chosen = dict[str, Mapping[str, Any]](dict.fromkeys(CHANNELS, _SANDBOX)) | dict(settings.outbound.providers)
    return replace(settings, outbound=replace(settings.outbound, providers=chosen))


async def _echo(message: InboundMessage) -> None:
    # On stderr, beside the logs: what goes to stdout may be read by a program.
    click.echo(f"echo: {printable(message.content, 500)}", err=True)


def _announce(address: str, admin_key: str, commands: list[str], options: Options) -> None:
    if options.json:
        return show_json({"url": address, "admin_key": admin_key, "commands": commands})
    click.echo("Pillarbox is running, and nothing leaves this machine. Ctrl-C stops it.\n")
    click.echo(address)
    click.echo(f"\nadmin key for the HTTP API, good while this runs: {admin_key}")
    click.echo("\nTry these in another terminal, in this folder:\n")
    for command in commands:
        click.echo(f"  {command}")
    click.echo()


async def _commands(box: Pillarbox, url: str) -> list[str]:
    """Commands that work as they stand, in this order, also on a database that has no demo data."""
    session_id = await _usable_session(box)
    opening = ["sessions", "open", "--target", '{"kind": "python", "name": "echo"}']
    if session_id is None:
        session_id = await _unused_session_id(box)
        opening.insert(2, session_id)
    lines = [opening, ["inbound", "post", session_id, "Hello again"]]
    if await _has_demo_tenant(box):
        lines.append(["send", "email", "--tenant", _TENANT, "--to", "you@example.com", "--text", "Hello by email"])
    lines.append(["status"])
    return [f"{_program()} --database {_shown_url(url)} {shlex.join(line)}" for line in lines]


async def _usable_session(box: Pillarbox) -> str | None:
    try:
        found = await box.sessions.get("echo")
    except NotFound:
        return None
    return found.session_id if found.lifecycle_status != "closed" and found.target == _ECHO else None


async def _has_demo_tenant(box: Pillarbox) -> bool:
    try:
        tenant = await box.tenants.get(_TENANT)
    except NotFound:
        return False
    return tenant.providers.get("email") == _SANDBOX


async def _unused_session_id(box: Pillarbox) -> str:
    number = 1
    while True:
        session_id = "echo" if number == 1 else f"echo-{number}"
        try:
            await box.sessions.get(session_id)
        except NotFound:
            return session_id
        number += 1


def _program() -> str:
    """How to call this very program from the folder it was started in."""
    started = Path(sys.argv[0])
    if started.name != "pillarbox":
        return f"{shlex.quote(sys.executable)} -m pillarbox"
    found = shutil.which("pillarbox")
    if found is not None and Path(found).resolve() == started.resolve():
        return "pillarbox"
    return shlex.quote(os.path.relpath(started) if started.is_relative_to(Path.cwd()) else str(started))


def _shown_url(url: str) -> str:
    """The database's address, good from any folder; a password stays in the variable it should be in."""
    from pillarbox.box import sqlite_path

    file = sqlite_path(url)
    if file is not None:
        return shlex.quote(f"sqlite:///{Path(file).absolute()}")
    return '"$PILLARBOX_DATABASE"' if urlsplit(url).password else shlex.quote(url)


def _free_port() -> int:
    from pillarbox.api.server import bind

    for port in range(_FIRST_PORT, _LAST_PORT):
        try:
            bind(_HOST, port).close()
        except Unavailable:
            continue
        return port
    raise Unavailable(f"Every port from {_FIRST_PORT} to {_LAST_PORT} is taken; choose one with --port.")
