"""`pillarbox dev`: everything in one process, with something to look at."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import shlex
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from pillarbox.cli.demo import ECHO, add_demo_data, echo_session, is_empty, sandbox_tenant, waits_for_a_provider
from pillarbox.cli.options import Command, Options, Whole
from pillarbox.cli.output import show_json
from pillarbox.cli.program import program, shown_url
from pillarbox.cli.running import keep_running, run_process
from pillarbox.cli.serve import configured_admin_key
from pillarbox.errors import InvalidInput, Unavailable
from pillarbox.opening import sqlite_path
from pillarbox.text import printable

if TYPE_CHECKING:
    from pillarbox.box import Pillarbox
    from pillarbox.inbound import InboundMessage
    from pillarbox.settings import Settings
    from pillarbox.settings.conversations import Transcription

_HOST, _FIRST_PORT, _LAST_PORT = "127.0.0.1", 8025, 8125
_MOST_GLANCES, _GLANCE_SECONDS = 40, 0.05
_DATABASE = "sqlite:///pillarbox-dev.db"
_PLATFORMS = ("whatsapp", "telegram", "discord", "slack")


@click.command(cls=Command, short_help="Try it: everything in one process, with demo data.")
@click.option("--port", type=Whole(0, 65_535), help="The port, the first free one from 8025 unless given.")
@click.pass_obj
def dev(options: Options, port: int | None) -> None:
    """Run everything in one process on SQLite, with demo data; nothing leaves this machine."""
    settings = _at_home(options.settings())
    options.database = options.url or _DATABASE
    if sqlite_path(options.database) is None:
        raise InvalidInput("database", "dev runs on SQLite: its sandbox would swallow what others want to send.")

    async def work(stop: asyncio.Event) -> None:
        async with options.open(settings) as box:
            await _swallow_nothing(box)
            await _run(box, stop, options, port)

    run_process(settings, work)


async def _run(box: Pillarbox, stop: asyncio.Event, options: Options, port: int | None) -> None:
    from pillarbox.api.server import bind, serve
    from pillarbox.dashboard.logins import login_token

    listening = _first_free() if port is None else bind(_HOST, port)
    box.inbound.target(ECHO)(_echo)
    new = await is_empty(box)
    session_id, tenant_id = await echo_session(box), await sandbox_tenant(box)
    if new:
        await add_demo_data(box, session_id=session_id, tenant_id=tenant_id)
    admin_key = configured_admin_key() or secrets.token_urlsafe(32)
    commands = _commands(options.database or _DATABASE, session_id=session_id, tenant_id=tenant_id)

    async def announce(address: str) -> None:
        if new:
            with _without_good_news():
                await _let_settle(box)
        _announce(f"{address}/login?token={login_token(admin_key)}", admin_key, commands, options)

    announcing = list[asyncio.Task[None]]()

    def ready(address: str) -> None:
        announcing.append(asyncio.create_task(announce(address)))

    port = listening.getsockname()[1]
    serving = serve(box, host=_HOST, port=port, admin_key=admin_key, ready=ready, listening=listening)
    await keep_running(box, stop, serving=serving, workers=True)


@contextmanager
def _without_good_news() -> Iterator[None]:
    """Log no more than what goes wrong: that the demo's messages were sent, the dashboard shows better."""
    ours = logging.getLogger("pillarbox")
    if ours.getEffectiveLevel() == logging.INFO:
        ours.setLevel(logging.WARNING)
    try:
        yield
    finally:
        ours.setLevel(logging.NOTSET)


async def _let_settle(box: Pillarbox) -> None:
    """Let the first messages be logged before what is said to people, which would be scrolled away by them."""
    with suppress(Unavailable):
        for _ in range(_MOST_GLANCES):
            if not (await box.outbound.status()).pending and not (await box.inbound.status()).pending:
                return
            await asyncio.sleep(_GLANCE_SECONDS)


def _at_home(settings: Settings) -> Settings:
    """Every channel of every tenant goes to the sandbox, and neither chat platforms nor any other server is spoken to."""
    from msgspec.structs import replace

    return replace(
        settings,
        outbound=replace(settings.outbound, sandbox=True),
        adapters=replace(settings.adapters, **{name: type(getattr(settings.adapters, name))() for name in _PLATFORMS}),
        hooks=replace(settings.hooks, forward_url=None),
        conversations=replace(settings.conversations, replies=False),
        media=replace(settings.media, transcription=_in_this_process(settings.media.transcription)),
    )


def _in_this_process(transcription: Transcription) -> Transcription:
    return transcription if transcription.engine != "http" else type(transcription)()


async def _swallow_nothing(box: Pillarbox) -> None:
    """Refuse a database in which somebody else's messages wait to be sent: the sandbox would say that they were."""
    if await waits_for_a_provider(box):
        raise InvalidInput(
            "database",
            "messages wait in it that dev's sandbox would swallow; name another, or run `serve` on this one.",
        )


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
    click.echo(f"\nThen be unkind: kill -9 {os.getpid()}, and run the second command while nobody is there.")
    click.echo("Start again as you did now: it says what it was told meanwhile. Nothing was lost.\n")


def _commands(url: str, *, session_id: str, tenant_id: str) -> list[str]:
    """Commands that work as they stand, in the folder that this was started in."""
    lines = (
        ["send", "email", "--tenant", tenant_id, "--to", "you@example.com", "--subject", "Hello", "--text", "By email"],
        ["inbound", "post", session_id, "Hello again"],
        ["status"],
    )
    return [f"{program()} --database {shown_url(url)} {shlex.join(line)}" for line in lines]


def _first_free() -> socket.socket:
    """A socket on the first free port, ours from then on."""
    from pillarbox.api.server import bind

    for port in range(_FIRST_PORT, _LAST_PORT):
        try:
            return bind(_HOST, port)
        except Unavailable:
            continue
    raise Unavailable(f"Every port from {_FIRST_PORT} to {_LAST_PORT} is taken; choose one with --port.")
