"""A copy of our own tree to spoil."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
_COPIED = ("src", "tests", "torture", "mutants", "bench", "docs", "scripts", "pyproject.toml", "README.md", "Makefile")
_COUNTS = ("src", "tests", "mutants", "torture", "pyproject.toml")


def copy_tree(tree: Path, *, without: str = "") -> Path:
    """What the tests need, in a folder that other users can enter, as PostgreSQL's must."""
    tree.mkdir()
    for name in _COPIED:
        source = ROOT / name
        if name != without and source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
        elif name != without and source.exists():
            shutil.copy(source, tree / name)
    tree.parent.chmod(0o755)
    return tree


def is_changed() -> bool:
    """Whether what is tried here, code or tests, differs from what is committed."""
    said = subprocess.run(
        ["git", "status", "--porcelain", *_COUNTS], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return said.returncode != 0 or bool(said.stdout.strip())
