"""`python -m mutants`: plants each bug in a copy of the tree, runs the tests named beside it, and shows which were found."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mutants.bug import Bug
from mutants.bugs import BUGS
from mutants.tree import copy_tree
from torture.result import commit, machine, write

_PATIENCE = 600.0
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
# Taking exactly one thing out of a set is how many tests assert that there is one.
_WRONG = re.compile(r"^E +(?:AssertionError|assert |Failed: |ValueError: .* values to unpack)", re.MULTILINE)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("--only", help="just the bugs whose name contains this")
    parser.add_argument("--result", help="a file for the matrix, as JSON")
    options = parser.parse_args(arguments)
    bugs = [bug for bug in BUGS if (options.only or "") in bug.name]
    with tempfile.TemporaryDirectory(prefix="pillarbox-mutants-") as folder:
        tree = copy_tree(Path(folder, "tree"))
        found = [_try(bug, tree) for bug in bugs]
    caught = sum(bool(each["found by"]) for each in found)
    print(f"{caught} of {len(bugs)} planted bugs were found")
    if options.result:
        result = {"command": "make mutants", "commit": commit(), "machine": machine(), "bugs": found}
        write(result, Path(options.result))
    return 0 if caught == len(bugs) else 1


def _try(bug: Bug, tree: Path) -> dict[str, Any]:
    """Plant one bug, run its tests, and take it out again."""
    file, began = tree / bug.file, time.monotonic()
    sound = file.read_text()
    try:
        file.write_text(bug.applied(tree))
        said = _run(bug.tests, tree)
    except LookupError as misfit:
        said = str(misfit)
    finally:
        file.write_text(sound)
    # A test that breaks down has noticed something; only one that says what is wrong has found the bug.
    names = sorted({name.partition("::")[2] for name in _FAILED.findall(said)})
    found = names[:3] if _WRONG.search(said) else []
    print(f"{'found ' if found else 'MISSED'} {bug.name}: {', '.join(found) or said[-300:]}", flush=True)
    return {
        "bug": bug.name,
        "file": bug.file,
        "found by": found,
        "failing tests": len(names),
        "seconds": round(time.monotonic() - began, 1),
    }


def _run(tests: Sequence[str], tree: Path) -> str:
    """The tests, on both databases, until one of them has failed."""
    command = [sys.executable, "-m", "pytest", "-q", "--maxfail=1", "-p", "no:cacheprovider", "--tb=short", *tests]
    environ = {**os.environ, "PYTHONPATH": f"{tree / 'src'}:{tree}"}
    try:
        done = subprocess.run(
            command, cwd=tree, env=environ, capture_output=True, text=True, check=False, timeout=_PATIENCE
        )
    except subprocess.TimeoutExpired:
        return f"nothing after {_PATIENCE:g} s"
    return done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(main())
