"""`pillarbox doctor`"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pillarbox import __version__
from pillarbox.cli.options import Command, Options
from pillarbox.cli.output import show_json, show_table
from pillarbox.cli.program import with_database
from pillarbox.errors import PillarboxError, SecretUnavailable, SettingsError

if TYPE_CHECKING:
    from pillarbox.box import Finding, Pillarbox
    from pillarbox.operators.nodes import Node
    from pillarbox.settings import Settings

_OLDEST_TMUX = (3, 4)
_MOST_TENANTS = 1000
_MOST_NAMED = 5


@click.command(cls=Command, short_help="Say what is wrong and how to mend it.")
@click.pass_context
def doctor(context: click.Context) -> None:
    """Check settings, database, disk, clock, credentials and tmux, and say how to mend them; exits with 1 on a problem."""
    options: Options = context.obj
    checks = asyncio.run(_check(options))
    ok = all(check.ok for check in checks)
    if options.json:
        show_json({"ok": ok, "checks": checks})
    else:
        rows = [
            (check.name, _verdict(check), with_database(check.detail.removeprefix("warning: "), options.database))
            for check in checks
        ]
        show_table(["check", "result", "detail"], rows, empty="")
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
    version = Finding("pillarbox", True, f"{__version__} on Python {platform.python_version()}")
    return [
        version,
        found,
        *_check_extras(settings),
        *await _check_database(options, settings),
        await asyncio.to_thread(_check_tmux),
    ]


def _check_extras(settings: Settings) -> list[Finding]:
    from pillarbox.box import Finding
    from pillarbox.settings.extras import missing_extras

    return [Finding("extras", False, sentence) for sentence in missing_extras(settings)]


async def _check_database(options: Options, settings: Settings) -> list[Finding]:
    from pillarbox.box import DEFAULT_DATABASE, Finding, sqlite_path
    from pillarbox.telemetry import brief

    file = sqlite_path(options.url or DEFAULT_DATABASE)
    if file is not None and _could_be_made(file):
        detail = f"warning: {file} is not there yet; `pillarbox migrate` or `pillarbox serve` makes it."
        return [Finding("database", True, detail)]
    try:
        async with options.open(settings, migrate=False) as box:
            findings = await box.checkup()
            return [*findings, *await _check_use(box)] if _is_set_up(findings) else findings
    except PillarboxError as error:
        return [Finding("database", False, str(error))]
    except Exception as error:
        return [
            Finding("database", False, f"{brief(error)}: check the address, or that it is a database of Pillarbox.")
        ]


def _is_set_up(findings: list[Finding]) -> bool:
    """Whether there are tables to look into."""
    return any(each.name == "schema" and each.ok and not each.detail.startswith("warning: ") for each in findings)


async def _check_use(box: Pillarbox) -> list[Finding]:
    """What can be wrong only where the database is in use."""
    configs = [(f"outbound.providers.{name}", each) for name, each in box.settings.outbound.providers.items()]
    for tenant in await box.tenants.list(limit=_MOST_TENANTS):
        configs += ((f"tenant {tenant.tenant_id}, {name}", each) for name, each in tenant.providers.items())
    return [await asyncio.to_thread(_check_credentials, configs), _check_nodes(await box.nodes.list())]


def _check_nodes(nodes: Sequence[Node]) -> Finding:
    from pillarbox.box import Finding
    from pillarbox.operators.nodes import missed

    alive = sum(node.state == "alive" and node.concurrency > 0 for node in nodes)
    gone = [f"{node.name} (process {node.process})" for node in missed(nodes)]
    if gone:
        more = f" and {len(gone) - _MOST_NAMED} more" if len(gone) > _MOST_NAMED else ""
        said = f"{', '.join(gone[:_MOST_NAMED])}{more} went away without stopping"
        return Finding("nodes", True, f"warning: {said}; look at their logs, and start them again. {alive} at work.")
    if not alive:
        return Finding("nodes", True, "warning: nobody delivers; start `pillarbox serve` or `pillarbox worker`.")
    return Finding("nodes", True, f"{alive} at work")


def _check_credentials(configs: Sequence[tuple[str, Mapping[str, Any]]]) -> Finding:
    """References that lead nowhere from here; advice, because workers may have another environment."""
    from pillarbox.box import Finding

    references = [(whose, text) for whose, each in configs for text in each.get("credentials", {}).values()]
    faults = [f"{whose}: {fault}" for whose, text in references if (fault := _fault_of(text))]
    if not faults:
        return Finding("credentials", True, f"{len(references)} references lead to a secret" if references else "none")
    more = f" And {len(faults) - _MOST_NAMED} more." if len(faults) > _MOST_NAMED else ""
    said = " ".join(faults[:_MOST_NAMED])
    return Finding("credentials", True, f"warning: {said}{more} Set them where the workers run.")


def _fault_of(reference: str) -> str | None:
    from pillarbox.secrets.references import read_reference

    try:
        read_reference(reference)
    except SecretUnavailable as fault:
        return str(fault)
    return None


def _could_be_made(file: str) -> bool:
    """Looking must not make a database where there is none."""
    return file != ":memory:" and os.access(Path(file).parent, os.W_OK) and not Path(file).exists()


def _check_tmux() -> Finding:
    from pillarbox.box import Finding

    program = shutil.which("tmux")
    if program is None:
        detail = "warning: not installed; only tmux targets need it (on Debian: apt-get install tmux)."
        return Finding("tmux", True, detail)
    try:
        asked = subprocess.run([program, "-V"], capture_output=True, text=True, timeout=5, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return Finding("tmux", True, f"warning: {program} does not tell its version; install it anew.")
    version = asked.stdout.strip()
    numbers = "".join(c if c.isdigit() or c == "." else " " for c in version).split()
    parts = tuple(int(part) for part in numbers[0].split(".") if part) if numbers else _OLDEST_TMUX
    needed = ".".join(map(str, _OLDEST_TMUX))
    return Finding("tmux", True, version if parts >= _OLDEST_TMUX else f"warning: {version}; upgrade it to {needed}.")
