"""`pillarbox tail`"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING

import click

from pillarbox.cli.options import Command, Options, Whole
from pillarbox.cli.output import brief, show_json, span
from pillarbox.text import printable

if TYPE_CHECKING:
    from pillarbox.operators.model import Left, LogItem

_MOST_REMEMBERED = 1000
_COLOURS = {
    **dict.fromkeys(("sent", "delivered"), "green"),
    **dict.fromkeys(("failed", "bounced", "dead"), "red"),
    **dict.fromkeys(("retrying", "processing"), "yellow"),
    **dict.fromkeys(("canceled", "expired", "superseded"), "bright_black"),
}


@click.command(cls=Command, short_help="Follow every message and each change of its state.")
@click.option(
    "--filter", "wanted", default="", metavar="TEXT", help="Only what matches, as in 'status:failed channel:sms'."
)
@click.option("--last", type=Whole(0, 1000), default=10, show_default=True, help="How many to begin with.")
@click.option("--count", type=Whole(1, 1_000_000), help="End after so many lines.")
@click.pass_obj
def tail(options: Options, wanted: str, last: int, count: int | None) -> None:
    """Follow messages and events of all pipes: what comes in, each change of state, what no longer matches; Ctrl-C ends it.

    With --json every line is one JSON value.
    """
    asyncio.run(_tail(options, wanted, last, count))


async def _tail(options: Options, wanted: str, last: int, count: int | None) -> None:
    from pillarbox.filters import parse_filter
    from pillarbox.operators.model import Left

    chosen, lines = parse_filter(wanted), _Lines(options, count)
    async with options.open(make=False) as box, box.log.follow(chosen) as changes:
        page = await box.log.page(chosen, limit=last) if last else None
        for item in reversed(page.items if page else ()):
            lines.show(item, item.created_at)
            if lines.full:
                return
        async for change in changes:
            if isinstance(change, Left):
                lines.show_left(change)
            elif change is not None:
                lines.show(change, None)
            if lines.full:
                return


class _Lines:
    """Prints items until there were enough; what was printed last of an item is not printed again."""

    def __init__(self, options: Options, most: int | None) -> None:
        self._json = options.json
        self._most = most
        self._printed = 0
        self._last: dict[tuple[str, str], LogItem] = {}

    @property
    def full(self) -> bool:
        return self._printed == self._most

    def show(self, item: LogItem, at: datetime | None) -> None:
        key = (item.pipe, item.id)
        if self._last.pop(key, None) == item:
            self._last[key] = item
            return
        self._last[key] = item
        if len(self._last) > _MOST_REMEMBERED:
            del self._last[next(iter(self._last))]
        self._printed += 1
        if self._json:
            show_json(item)
        else:
            click.echo(_line(item, at or datetime.now().astimezone()))

    def show_left(self, left: Left) -> None:
        """Tell that something which was printed no longer matches."""
        if self._last.pop((left.pipe, left.id), None) is None:
            return
        self._printed += 1
        if self._json:
            return show_json(left)
        gone = click.style(f"{'left':<10}", fg="bright_black")
        click.echo(f"{datetime.now():%H:%M:%S}  {left.pipe:<8}  {left.id:<8}  {gone}  no longer matches")


def _line(item: LogItem, at: datetime) -> str:
    """When, which, in what state, where to, and what is to be said of it."""
    status = click.style(f"{item.status:<10}", fg=_COLOURS.get(item.status))
    where = f"{item.tenant_id} {item.channel} {item.to_address or ''}" if item.tenant_id else item.session_id
    said = [
        f"{at.astimezone():%H:%M:%S}  {item.pipe:<8}  {item.id:<8}  {status}  {printable(where or '', 120)}",
        brief(item.summary),
        f"attempt {item.attempt_count}" if item.attempt_count > (0 if item.error else 1) else "",
        brief(item.error),
        _again(item),
    ]
    return "  ".join(filter(None, said)).rstrip()


def _again(item: LogItem) -> str:
    if item.next_attempt_at is None or not item.attempt_count or item.status not in ("retrying", "failed", "pending"):
        return ""
    seconds = (item.next_attempt_at - datetime.now(item.next_attempt_at.tzinfo)).total_seconds()
    return f"again in {span(seconds)}" if seconds > 0 else "due now"
