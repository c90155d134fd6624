"""`python -m mutants`: plants each bug in a copy of the tree, runs the tests named beside it, and shows which were found.

First the same tests run on the copy as it is, where all must pass: a test that fails anyway has found nothing. When some
have found a bug they run once more without it, in the same company, and must pass again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mutants.bug import Bug
from mutants.bugs import BUGS
from mutants.findings import failing, findings
from mutants.stopping import company, run
from mutants.tree import copy_tree, is_changed
from torture.result import commit, machine, write

SEED = 0
"""Of Hypothesis; the seeds of the simulation are the tests' own."""
_PATIENCE = 600.0
_PATIENCE_AT_FIRST = 1800.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("--only", help="just the bugs whose name contains this")
    parser.add_argument("--result", help="a file for the matrix, as JSON; not written where the tree is not its commit")
    options = parser.parse_args(arguments)
    if find_spec("pytest") is None:
        parser.error("pytest is not installed here: run `make dev-setup`, then .venv/bin/python -m mutants")
    bugs = [bug for bug in BUGS if (options.only or "") in bug.name]
    if not bugs:
        parser.error(f"--only {options.only}: no planted bug has that in its name; mutants/bugs.py has them all")
    changed, began = is_changed(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pillarbox-mutants-") as folder:
        tree = copy_tree(Path(folder, "tree"))
        tests = sorted({test for bug in bugs for test in bug.tests})
        print(f"{len(tests)} tests without any bug, then {len(bugs)} bugs, one at a time", flush=True)
        passed, said = run_tests(tests, tree, "--maxfail=5", patience=_PATIENCE_AT_FIRST)
        if not passed:
            print(f"{said[-6000:]}\nwithout any bug these fail: {', '.join(failing(said)) or 'see above'}")
            return 2
        print(f"{len(tests)} tests pass without any bug ({time.monotonic() - began:.0f} s)", flush=True)
        found = []
        for number, bug in enumerate(bugs, 1):
            print(f"{number}/{len(bugs)} ", end="", flush=True)
            found.append(try_bug(bug, tree))
    caught = sum(bool(each["found by"]) for each in found)
    print(f"{caught} of {len(bugs)} planted bugs were found")
    if options.result and changed:
        print(f"{options.result} is left as it was: what was tried is not what is committed")
    elif options.result:
        result = {
            "command": "make mutants",
            "seed": SEED,
            "commit": commit(),
            "machine": machine(),
            "tests that pass without any bug": len(tests),
            "bugs": found,
        }
        write(result, Path(options.result))
    return 0 if caught == len(bugs) else 1


def try_bug(bug: Bug, tree: Path) -> dict[str, Any]:
    """Plant one bug, run its tests, and take it out again."""
    began, sound = time.monotonic(), dict[str, str]()
    try:
        for file, text in bug.applied(tree).items():
            sound[file] = (tree / file).read_text()
            (tree / file).write_text(text)
        _, said = _run_for(bug, tree)
    except LookupError as misfit:
        said = str(misfit)
    finally:
        for file, text in sound.items():
            (tree / file).write_text(text)
    if found := findings(said):
        passed, again = _run_for(bug, tree)
        if not passed:
            found, said = [], f"without it these fail, too: {', '.join(failing(again)) or again[-300:]}"
    print(f"{'found ' if found else 'MISSED'} {bug.name}: {', '.join(found) or said[-300:]}", flush=True)
    return {
        "bug": bug.name,
        "file": bug.file,
        "found by": found,
        "seconds": round(time.monotonic() - began, 1),
    }


def _run_for(bug: Bug, tree: Path) -> tuple[bool, str]:
    return run_tests(bug.tests, tree, "--maxfail=1", patience=_PATIENCE)


def run_tests(tests: Sequence[str], tree: Path, *how: str, patience: float) -> tuple[bool, str]:
    """Whether the tests pass on both databases, and what they say."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", *how]
    command += [f"--hypothesis-seed={SEED}", *tests]
    environ = {**os.environ, "PYTHONPATH": f"{tree / 'src'}:{tree}", "PYTHONHASHSEED": str(SEED)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with company(command, cwd=tree, env=environ, **pipes) as running:
        try:
            said, complained = running.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            return False, f"nothing after {patience:g} s"
    # A test that has changed its folder is told of files by their whole path.
    return running.returncode == 0, (said + complained).replace(f"{tree}/", "")


if __name__ == "__main__":
    sys.exit(run(main))
