"""`pillarbox top`"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from pillarbox.cli.gauges import Gauge, Gauges, Pace
from pillarbox.cli.options import Command, Options
from pillarbox.cli.output import show_json, span
from pillarbox.cli.program import runnable
from pillarbox.errors import Unavailable
from pillarbox.text import printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from pillarbox.operators.nodes import Node

_WORDS = frozenset({"pipe", "node", "role", "state", "version"})
_COLOURS = {"alive": "green", "gone": "bold red", "stopped": "dim"}


@click.command(cls=Command, short_help="Watch what waits and what is done, live.")
@click.option(
    "--every", type=click.FloatRange(0.1, 3600), default=1.0, show_default=True, help="Seconds between looks."
)
@click.option("--once", is_flag=True, help="Print one look and end.")
@click.pass_obj
def top(options: Options, every: float, once: bool) -> None:
    """Watch what waits, what is done and who does it, live; q ends it."""
    if once or options.json or not sys.stdout.isatty():
        return _show(asyncio.run(_look(options)), options)
    with suppress(KeyboardInterrupt):
        asyncio.run(_watch(options, every))


async def _look(options: Options) -> Gauges:
    async with options.open(make=False) as box:
        return await Gauge(box).look()


def _show(gauges: Gauges, options: Options) -> None:
    if not options.json:
        return _console().print(_drawn(gauges))
    paces = {name: asdict(pace) for name, pace in gauges.paces.items()}
    show_json({"pipes": gauges.pipes, "paces": paces, "nodes": gauges.nodes})


async def _watch(options: Options, every: float) -> None:
    from rich.live import Live

    async with options.open(make=False) as box:
        gauge = Gauge(box)
        shown = _live(await gauge.look())
        with _keyboard() as quit_asked, Live(shown, console=_console(), screen=True, auto_refresh=False) as live:
            live.refresh()
            while not await _within(quit_asked, every):
                try:
                    shown = _live(await gauge.look())
                except Unavailable as error:
                    shown = printable(error, 500)
                live.update(shown, refresh=True)


async def _within(event: asyncio.Event, seconds: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


@contextmanager
def _keyboard() -> Iterator[asyncio.Event]:
    """An event that a q sets; keys come one by one and are not shown."""
    quit_asked = asyncio.Event()
    if not sys.stdin.isatty():
        yield quit_asked
        return
    import os
    import termios
    import tty

    keys, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(keys)

    def hear() -> None:
        pressed = os.read(keys, 1024)
        # Nothing to read means that the terminal is gone.
        if not pressed or b"q" in pressed.lower():
            quit_asked.set()

    tty.setcbreak(keys)
    loop.add_reader(keys, hear)
    try:
        yield quit_asked
    finally:
        loop.remove_reader(keys)
        termios.tcsetattr(keys, termios.TCSADRAIN, before)


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def _live(gauges: Gauges) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    return Group(_drawn(gauges), Text(), Text("q ends it", style="dim"))


def _drawn(gauges: Gauges) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    alive = sum(node.state == "alive" for node in gauges.nodes)
    heading = Text(f"Pillarbox  {datetime.now(UTC):%H:%M:%S}Z  {alive} process{'' if alive == 1 else 'es'} at work")
    return Group(heading, Text(), _pipes(gauges), Text(), _nodes(gauges.nodes))


def _table(*columns: str) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for name in columns:
        table.add_column(name, justify="left" if name in _WORDS else "right", no_wrap=True)
    return table


def _pipes(gauges: Gauges) -> Table:
    table = _table("pipe", "pending", "processing", "to retry", "oldest", "done/s", "failed/s", "took")
    for name, pipe in gauges.pipes.items():
        if "pending" not in pipe:
            continue
        counts = (f"{pipe[count]:,}" for count in ("pending", "processing", "failed"))
        table.add_row(name, *counts, _age(pipe["oldest_age_seconds"]), *_paced(gauges.paces.get(name)))
        for channel, pace in gauges.paces.items():
            if channel.startswith(f"{name}."):
                table.add_row(f"  {channel.removeprefix(f'{name}.')}", "", "", "", "", *_paced(pace))
    return table


def _paced(pace: Pace | None) -> tuple[str, str, str]:
    if pace is None:
        return "", "", ""
    took = "" if pace.took_seconds is None else f"{pace.took_seconds * 1000:,.0f} ms"
    return f"{pace.done:,.1f}", f"{pace.failed:,.1f}", took


def _age(seconds: Any) -> str:
    return "" if seconds is None else span(seconds)


def _nodes(nodes: list[Node]) -> RenderableType:
    from rich.text import Text

    if not nodes:
        return Text(runnable("Nobody works on this database; `pillarbox serve` or `pillarbox worker` does."))
    table = _table("node", "process", "role", "state", "in flight", "places", "seen", "version")
    now = datetime.now(UTC)
    for node in nodes:
        table.add_row(
            printable(node.name, 60),
            str(node.process),
            node.role,
            Text(node.state, style=_COLOURS[node.state]),
            str(node.in_flight),
            str(node.concurrency),
            f"{span(max(0.0, (now - node.last_seen).total_seconds()))} ago",
            node.version,
        )
    return table
