"""`pillarbox doctor`"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pillarbox.cli.options import Command, Options
from pillarbox.cli.output import show_json, show_table
from pillarbox.errors import PillarboxError, SettingsError

if TYPE_CHECKING:
    from pillarbox.box import Finding
    from pillarbox.settings import Settings

_OLDEST_TMUX = (3, 4)


@click.command(cls=Command)
@click.pass_context
def doctor(context: click.Context) -> None:
    """Check the database, versions, the disk and the clock; exits with 1 on a problem."""
    options: Options = context.obj
    checks = asyncio.run(_check(options))
    ok = all(check.ok for check in checks)
    if options.json:
        show_json({"ok": ok, "checks": checks})
    else:
        rows = [(check.name, _verdict(check), check.detail.removeprefix("warning: ")) for check in checks]
        show_table(["check", "", "detail"], rows, empty="")
    context.exit(0 if ok else 1)


def _verdict(check: Finding) -> str:
    if not check.ok:
        return "PROBLEM"
    return "advice" if check.detail.startswith("warning: ") else "ok"


async def _check(options: Options) -> list[Finding]:
    from pillarbox.box import Finding
    from pillarbox.settings import Settings

    try:
        settings, found = options.settings(), Finding("settings", True, "read")
    except SettingsError as error:
        settings, found = Settings(), Finding("settings", False, str(error))
    return [found, *await _check_database(options, settings), await asyncio.to_thread(_check_tmux)]


async def _check_database(options: Options, settings: Settings) -> list[Finding]:
    from pillarbox.box import DEFAULT_DATABASE, Finding, sqlite_path
    from pillarbox.telemetry import brief

    file = sqlite_path(options.url or DEFAULT_DATABASE)
    if file is not None and _could_be_made(file):
        detail = f"warning: {file} is not there yet; `pillarbox migrate` or `pillarbox serve` makes it."
        return [Finding("database", True, detail)]
    try:
        async with options.open(settings, migrate=False) as box:
            return await box.checkup()
    except PillarboxError as error:
        return [Finding("database", False, str(error))]
    except Exception as error:
        return [Finding("database", False, brief(error))]


def _could_be_made(file: str) -> bool:
    """Looking must not make a database where there is none."""
    return file != ":memory:" and os.access(Path(file).parent, os.W_OK) and not Path(file).exists()


def _check_tmux() -> Finding:
    from pillarbox.box import Finding

    program = shutil.which("tmux")
    if program is None:
        return Finding("tmux", True, "warning: not installed; only tmux targets need it.")
    try:
        asked = subprocess.run([program, "-V"], capture_output=True, text=True, timeout=5, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return Finding("tmux", True, "warning: it does not tell its version.")
    version = asked.stdout.strip()
    numbers = "".join(c if c.isdigit() or c == "." else " " for c in version).split()
    parts = tuple(int(part) for part in numbers[0].split(".") if part) if numbers else _OLDEST_TMUX
    needed = ".".join(map(str, _OLDEST_TMUX))
    return Finding("tmux", True, version if parts >= _OLDEST_TMUX else f"warning: {version}; {needed} is better.")
