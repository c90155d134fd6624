"""How this very program is called from where it was started, for commands that people are told to run."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from urllib.parse import urlsplit

_NAME = "pillarbox"


def program() -> str:
    """Its name where the shell finds it by that, else the way to it."""
    started = Path(sys.argv[0])
    if started.name != _NAME:
        return f"{shlex.quote(sys.executable)} -m {_NAME}"
    found = shutil.which(_NAME)
    if found is not None and Path(found).resolve() == started.resolve():
        return _NAME
    return shlex.quote(os.path.relpath(started) if started.is_relative_to(Path.cwd()) else str(started))


def runnable(sentence: str) -> str:
    """A sentence whose commands, in backticks, can be run as they stand."""
    return sentence.replace(f"`{_NAME} ", f"`{program()} ") if f"`{_NAME} " in sentence else sentence


def with_database(sentence: str, url: str | None) -> str:
    """The same, with the database that was named on the command line."""
    named = "" if url is None else f"--database {shown_url(url)} "
    return runnable(sentence.replace(f"`{_NAME} ", f"`{_NAME} {named}"))


def shown_url(url: str) -> str:
    """The database's address, good from any folder; a password stays in the variable it should be in."""
    from pillarbox.opening import sqlite_path

    file = sqlite_path(url)
    if file is not None:
        path = Path(file)
        inside = path.absolute().is_relative_to(Path.cwd())
        return shlex.quote(f"sqlite:///{os.path.relpath(path) if inside else path.absolute()}")
    return '"$PILLARBOX_DATABASE"' if urlsplit(url).password else shlex.quote(url)
