"""`pillarbox attention`, `nodes` and `audit`"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

import click

from pillarbox.cli.asking import ask
from pillarbox.cli.options import Command, Options, Whole
from pillarbox.cli.output import brief, show_json, show_more, show_table, span, when
from pillarbox.cli.program import with_database
from pillarbox.text import printable


@click.command(cls=Command, short_help="Show what needs you now.")
@click.pass_obj
def attention(options: Options) -> None:
    """Show what needs you now: what is stuck, for how long, why, and what to do."""
    found = ask(options, "GET", "/v1/attention")
    if options.json:
        return show_json(found)
    rows = [
        (
            item["kind"],
            item["id"],
            _whose(item),
            span(item["age_seconds"]),
            _number(item),
            brief(item["reason"]),
            item["action"],
        )
        for item in found["items"]
    ]
    if rows and sys.stdout.isatty():
        for row in rows:
            _tell(*row)
    else:
        columns = ["what", "id", "whose", "for", "messages", "reason", "do"]
        show_table(columns, rows, empty="Nothing needs you.")
    shown = Counter(item["kind"] for item in found["items"])
    for kind, count in found["counts"].items():
        if count["matching"] > shown[kind]:
            least = "" if count["exact"] else "at least "
            click.echo(f"{kind}: the {shown[kind]} oldest of {least}{count['matching']} are shown.", err=True)


def _tell(kind: str, key: str, whose: str, age: str, number: str, reason: str, action: str) -> None:
    """What it is on a line, why on the next, and what to do on a third; each as long as it needs to be."""
    named = " ".join(filter(None, (printable(whose, 80), printable(key, 80))))
    held = f", {number} message{'' if number == '1' else 's'}" if number != "0" else ""
    click.echo(f"{click.style(kind, bold=True)}  {named}  for {age}{held}")
    width = max(20, shutil.get_terminal_size().columns)
    for line, colour in ((reason, None), (f"→ {action}", "cyan")):
        click.echo(click.style(click.wrap_text(printable(line, 500), width, "  ", "  "), fg=colour))


def _whose(item: Mapping[str, Any]) -> str:
    return " ".join(filter(None, (item["tenant_id"], item["channel"], item["session_id"], brief(item["summary"]))))


def _number(item: Mapping[str, Any]) -> str:
    return f"{item['count']}{'' if item['exact'] else '+'}"


@click.command(cls=Command, short_help="List the processes on this database.")
@click.pass_obj
def nodes(options: Options) -> None:
    """List the processes on this database, and those that went away within a day."""
    found = ask(options, "GET", "/v1/nodes")
    if options.json:
        return show_json(found)
    rows = [
        (
            *(item[name] for name in ("name", "process", "role", "state", "in_flight", "concurrency", "version")),
            when(item["started_at"]),
            when(item["last_seen"]),
        )
        for item in found["items"]
    ]
    columns = ["node", "process", "role", "state", "in flight", "places", "version", "started", "seen"]
    empty = "Nobody works on this database; `pillarbox serve` or `pillarbox worker` does."
    show_table(
        columns,
        rows,
        empty=with_database(empty, options.database),
        loose=("node",),
        spare=("version", "started", "places", "role"),
    )


@click.command(cls=Command)
@click.option("--limit", type=Whole(1, 1000), default=100, show_default=True)
@click.option("--cursor", help="Where an earlier list went on.")
@click.pass_obj
def audit(options: Options, limit: int, cursor: str | None) -> None:
    """List what operators did, the newest first."""
    page = ask(options, "GET", "/v1/audit", fields={"limit": limit, "cursor": cursor})
    if options.json:
        return show_json(page)
    rows = [
        (
            when(item["at"]),
            item["who"],
            item["action"],
            f"{item['subject_kind']} {item['subject_id']}",
            item["tenant_id"],
            item["outcome"],
        )
        for item in page["items"]
    ]
    columns = ["at", "who", "action", "subject", "tenant", "outcome"]
    show_table(columns, rows, empty="Nobody did anything yet.", loose=("who",), spare=("tenant", "who", "at"))
    show_more(page)
