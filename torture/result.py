"""What a run came to, for people as a table and for the documentation as a file."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw

from tests.servers.postgres import find_binaries
from torture.outcome import Outcome
from torture.plan import Plan

_ROOT = Path(__file__).parents[1]
_SHOWN = 5
"""So many of what breaks one rule are told; the others are counted."""


def summary(plan: Plan, outcomes: Sequence[Outcome], command: str) -> dict[str, Any]:
    """Everything that was counted, with what it takes to do it again."""

    def total(name: str) -> dict[str, int]:
        added: Counter[str] = Counter()
        for outcome in outcomes:
            added.update(getattr(outcome, name))
        return dict(sorted(added.items()))

    violations = Counter(violation.rule for outcome in outcomes for violation in outcome.violations)
    return {
        "command": command,
        "seed": plan.seed,
        "commit": commit(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "database": plan.database,
        "rounds": len(outcomes),
        "seconds": round(sum(outcome.seconds for outcome in outcomes), 1),
        "acknowledged": total("acknowledged"),
        "ended": total("ended"),
        "arrivals": total("arrivals"),
        "repetitions": total("repetitions"),
        "repeated by": total("repeated_by"),
        "under an old token": total("old_tokens"),
        "looks": total("looks"),
        "faults": total("faults"),
        "left out": sorted({sentence for outcome in outcomes for sentence in outcome.missing}),
        "violations": dict(violations),
    }


def told(outcome: Outcome) -> str:
    """One round for people: what was counted, and of each rule that was broken the first few times."""
    counted = (
        f"{outcome.acknowledged.total()} acknowledged, {outcome.faults.total()} faults, "
        f"{outcome.repetitions.total()} repetitions, {len(outcome.violations)} violations"
    )
    lines = [counted]
    for rule, times in Counter(violation.rule for violation in outcome.violations).items():
        details = [violation.detail for violation in outcome.violations if violation.rule == rule]
        lines += [f"  {_broken(rule)}: {detail}" for detail in details[:_SHOWN]]
        if times > _SHOWN:
            lines.append(f"  {_broken(rule)}: {times - _SHOWN} more")
    if outcome.violations:
        lines.append(f"  everything is in {outcome.folder}")
    return "\n".join(lines)


def _broken(rule: str) -> str:
    # A rule has the name of what is promised: alone it would read as if that had been found.
    return f"BROKEN {rule.replace(': ', ', ')}"


def table(result: dict[str, Any]) -> str:
    """The figures, one in a line."""
    lines = [(f"acknowledged: {name}", count) for name, count in result["acknowledged"].items()]
    lines.append(("acknowledged in all", sum(result["acknowledged"].values())))
    lines += [(f"ended: {name}", count) for name, count in result["ended"].items()]
    lines += [(f"arrived: {name}", count) for name, count in result["arrivals"].items()]
    lines += [(f"arrived again: {name}", count) for name, count in result["repetitions"].items()]
    lines += [(f"fault: {name}", count) for name, count in result["faults"].items()]
    lines += [(f"accepted, and again after: {name}", count) for name, count in result["repeated by"].items()]
    lines += [(f"under an old token: {name}", count) for name, count in result["under an old token"].items()]
    lines += [(f"looked {name}", count) for name, count in result["looks"].items()]
    lines += [(_broken(name), count) for name, count in result["violations"].items()]
    lines.append(("violations in all", sum(result["violations"].values())))
    width = max(len(name) for name, _ in lines)
    said = [f"{name:<{width}}  {count:>9,}" for name, count in lines]
    return "\n".join([*said, *(f"left out: {sentence}" for sentence in result["left out"])])


def write(result: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")


def machine() -> dict[str, Any]:
    """What the figures were made on."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "postgres": _postgres(),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _postgres() -> str:
    said = subprocess.run([find_binaries() / "postgres", "--version"], capture_output=True, text=True, check=False)
    return said.stdout.strip()


def commit() -> str:
    """The commit, and whether the tree was otherwise."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=_ROOT, capture_output=True, text=True, check=False)
    changed = subprocess.run(
        ["git", "status", "--porcelain", "src", "torture", "tests"],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return head.stdout.strip() + (" and changes" if changed.stdout.strip() else "")
