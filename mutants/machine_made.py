"""`python -m mutants.machine_made`: mutmut over the whole engine and the files that only compute, in a copy of the tree.

Other than the planted bugs these changes are made by a program, one at a time and by the hundred; what the tests do not
notice is worth a look, and is often no bug at all. It changes functions and methods, but no properties and nothing that
happens when a module is read; a file that has nothing else to offer is listed with no changes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mutants.stopping import company, run
from mutants.tree import ROOT, copy_tree, is_changed
from torture.result import commit, machine, write

FILES = (
    *sorted(f"engine/{path.name}" for path in (ROOT / "src/pillarbox/engine").glob("[!_]*.py")),
    "hooks/coalesce.py",
    "outbound/policy.py",
    "outbound/rates.py",
    "outbound/retry_after.py",
    "outbound/segments.py",
    "text.py",
)
TESTS = (
    "tests/engine",
    "tests/simulation/test_simulation.py::test_whatever_fails_the_promises_hold",
    "tests/simulation/test_simulation.py::test_every_due_time_is_kept_when_nothing_is_in_the_way",
    "tests/hooks/test_coalesce.py",
    "tests/outbound/test_policy.py",
    "tests/outbound/test_rates.py",
    "tests/outbound/test_retry_after.py",
    "tests/outbound/test_segments.py",
    "tests/test_text.py",
)
SEED = 0
"""Of Hypothesis."""
_SIMULATIONS = 50
"""Seeds of the simulation for each change that nothing quicker has noticed."""
_KILLED = (1, 3)
"""How a test run ends that failed or crashed."""
_TIMED_OUT = (24, 36, 152, 255, -24)
"""How one ends that was still running long after it should have ended: nobody knows what it would have said."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m mutants.machine_made", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="how many at once")
    parser.add_argument("--result", help="a file for the score, as JSON; not written where the tree is not its commit")
    options = parser.parse_args(arguments)
    changed = is_changed()
    with tempfile.TemporaryDirectory(prefix="pillarbox-mutmut-") as folder:
        tree = copy_tree(Path(folder, "tree"), without="mutants")
        with (tree / "pyproject.toml").open("a") as settings:
            settings.write(_settings())
        command = [str(Path(sys.executable).with_name("mutmut")), "run", "--max-children", str(options.jobs)]
        environ = {**os.environ, "PILLARBOX_SIMULATION_SEEDS": str(_SIMULATIONS), "PYTHONHASHSEED": str(SEED)}
        with company(command, cwd=tree, env=environ) as running:
            if running.wait():
                print(f"mutmut ended with {running.returncode}", file=sys.stderr)
                return 2
        files = [score(tree, file) for file in FILES]
    for file in files:
        print(
            f"{file['file']}: {file['killed']} noticed, {file['timed out']} ran out of time, {file['survived']} not, "
            f"{file['untested']} not even reached"
        )
    made = sum(file[end] for file in files for end in ("killed", "timed out", "survived", "untested"))
    timed_out = sum(file["timed out"] for file in files)
    print(f"{sum(file['killed'] for file in files)} of {made} changes were noticed, {timed_out} ran out of time")
    if options.result and changed:
        print(f"{options.result} is left as it was: what was tried is not what is committed")
    elif options.result:
        result = {"command": "make mutmut", "seed": SEED, "commit": commit(), "machine": machine(), "files": files}
        write(result, Path(options.result))
    return 0


def _settings() -> str:
    named = json.dumps([f"src/pillarbox/{file}" for file in FILES])
    return (
        "\n[tool.mutmut]\n"
        'source_paths = ["src"]\n'
        f"only_mutate = {named}\n"
        f"pytest_add_cli_args_test_selection = {json.dumps(TESTS)}\n"
        f'pytest_add_cli_args = ["-p", "no:cacheprovider", "-W", "ignore", "--hypothesis-seed={SEED}"]\n'
        'also_copy = ["bench", "docs", "scripts", "torture"]\n'
        "use_setproctitle = false\n"
        "timeout_multiplier = 10.0\n"
        "timeout_constant = 2.0\n"
    )


def score(tree: Path, file: str) -> dict[str, Any]:
    """What became of the changes to one file."""
    path = tree / "mutants" / "src" / "pillarbox" / f"{file}.meta"
    codes: dict[str, int | None] = json.loads(path.read_text())["exit_code_by_key"] if path.exists() else {}
    counted = Counter(_end(code) for code in codes.values())
    lived = sorted(name for name, code in codes.items() if code == 0)
    return {
        "file": file,
        "killed": counted["killed"],
        "timed out": counted["timed out"],
        "survived": counted["survived"],
        "untested": counted["untested"],
        "not noticed": lived,
    }


def _end(code: int | None) -> str:
    if code in _KILLED:
        return "killed"
    if code in _TIMED_OUT:
        return "timed out"
    return "survived" if code == 0 else "untested"


if __name__ == "__main__":
    sys.exit(run(main))
