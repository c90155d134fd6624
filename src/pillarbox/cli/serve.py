"""`pillarbox serve` and `worker`"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import click

from pillarbox.cli.options import Command, Options, Whole
from pillarbox.cli.output import show_json
from pillarbox.cli.running import keep_running, run_process
from pillarbox.errors import InvalidInput

if TYPE_CHECKING:
    from pillarbox.box import Pillarbox

_node = click.option("--node", help="The name of this machine, its host name unless given.")
_no_migrate = click.option("--no-migrate", is_flag=True, help="Leave the schema as it is.")


@click.command(cls=Command)
@click.option("--host", help="The address to listen on, 127.0.0.1 unless set.")
@click.option("--port", type=Whole(0, 65_535), help="The port, 8025 unless set; 0 takes a free one.")
@_node
@click.option("--no-workers", is_flag=True, help="Serve the API and deliver nothing.")
@_no_migrate
@click.pass_obj
def serve(
    options: Options, host: str | None, port: int | None, node: str | None, no_workers: bool, no_migrate: bool
) -> None:
    """Run the HTTP API and the workers until SIGTERM or Ctrl-C."""
    from pillarbox.settings.extras import require_extras

    settings = options.settings()
    if not no_workers:
        require_extras(settings)
    door = host or settings.http.host, settings.http.port if port is None else port

    async def work(stop: asyncio.Event) -> None:
        async with options.open(settings, node=node, migrate=not no_migrate) as box:
            await box.require_schema()
            await box.advise()
            await _serve(box, stop, options, *door, workers=not no_workers)

    run_process(settings, work)


@click.command(cls=Command)
@_node
@_no_migrate
@click.pass_obj
def worker(options: Options, node: str | None, no_migrate: bool) -> None:
    """Run the workers alone, without HTTP, until SIGTERM or Ctrl-C."""
    from pillarbox.settings.extras import require_extras

    settings = options.settings()
    require_extras(settings)

    async def work(stop: asyncio.Event) -> None:
        async with options.open(settings, node=node, migrate=not no_migrate) as box:
            await box.require_schema()
            await box.advise()
            if options.json:
                show_json({"node": box.node})
            else:
                click.echo(f"working as {box.node}")
            await keep_running(box, stop, serving=None, workers=True)

    run_process(settings, work)


async def _serve(box: Pillarbox, stop: asyncio.Event, options: Options, host: str, port: int, *, workers: bool) -> None:
    from pillarbox.api.server import bind
    from pillarbox.api.server import serve as serve_http

    admin_key = configured_admin_key()
    keyless = admin_key is None and not await box.keys.any_admin()
    _refuse_to_open_without_key(host, keyless=keyless)
    # The port first: a key that was made and shown for a start that then fails would never be shown again.
    listening = bind(host, port)
    made = (await box.keys.create(name="made by serve")).key if keyless else None
    if made is not None and not options.json:
        click.echo(f"admin key, shown this once: {made}")

    def ready(address: str) -> None:
        if options.json:
            show_json({"url": address} if made is None else {"url": address, "admin_key": made})
        else:
            click.echo(f"listening on {address}")

    serving = serve_http(box, host=host, port=port, admin_key=admin_key, ready=ready, listening=listening)
    await keep_running(box, stop, serving=serving, workers=workers)


def configured_admin_key() -> str | None:
    """The key of PILLARBOX_ADMIN_KEY; blanks and line ends around it are not part of it."""
    return os.environ.get("PILLARBOX_ADMIN_KEY", "").strip() or None


def _refuse_to_open_without_key(host: str, *, keyless: bool) -> None:
    """An address that others can reach is not opened with a key that nobody has seen."""
    from pillarbox.api.hosts import is_loopback

    if keyless and not is_loopback(host):
        raise InvalidInput(
            "host", f"{host} can be reached from outside and no key is configured; set PILLARBOX_ADMIN_KEY first."
        )
