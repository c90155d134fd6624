"""A place to try things out beside a database: on the same disk or server, seen by nobody else, gone afterwards.

A maker that is killed leaves its place behind. The next one removes it, once it is certain that nobody works in it: its maker
held a lock for as long as it lived, and where there is none to look at, an hour has passed.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from pillarbox.errors import Unavailable

_NAME = "pillarbox_bench_"
# As `tempfile` makes them.
_FOLDER = re.compile(rf"\.{_NAME}[a-z0-9_]{{8}}")
_OURS = re.compile(r"lock(\..*)?|bench\.db.*")
_LOCK = "lock"
_LONG_AGO = 3600.0


@contextmanager
def scratch_file(path: str) -> Iterator[str]:
    """The URL of a new SQLite file in a folder beside this one; removes what dead makers left there."""
    beside = Path(path).resolve().parent
    for name in leftover_folders(path):
        shutil.rmtree(name, ignore_errors=True)
    try:
        folder = tempfile.mkdtemp(prefix=f".{_NAME}", dir=beside)
    except OSError as error:
        reason = error.strerror or "it cannot be used"
        raise Unavailable(f"No folder can be made beside the database: {reason}; check the path.") from error
    try:
        with _locked(Path(folder)):
            yield f"sqlite:///{folder}/bench.db"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def scratch_schema(url: str) -> AbstractContextManager[str]:
    """The URL of a new PostgreSQL schema in this database; what is opened by it sees no other."""
    from pillarbox.storage.scratch_schema import schema

    return schema(url)


def leftover_folders(path: str) -> list[str]:
    """The folders beside a database file whose makers are dead: ours by name, owner and all that is in them."""
    with suppress(OSError), os.scandir(Path(path).resolve().parent) as entries:
        return [entry.path for entry in entries if _FOLDER.fullmatch(entry.name) and _is_left(entry)]
    return []


def _is_left(entry: os.DirEntry[str]) -> bool:
    with suppress(OSError):
        if not entry.is_dir(follow_symlinks=False) or entry.stat(follow_symlinks=False).st_uid != os.geteuid():
            return False
        files = list(os.scandir(entry.path))
        if not all(_OURS.fullmatch(file.name) for file in files):
            return False
        if any(file.name == _LOCK for file in files):
            return _is_free(Path(entry.path, _LOCK))
        youngest = max([entry.stat().st_mtime, *(file.stat(follow_symlinks=False).st_mtime for file in files)])
        return time.time() - youngest > _LONG_AGO
    return False


def _is_free(lock: Path) -> bool:
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; it is locked before it has its name, so that nobody finds it free."""
    with open(folder / f"{_LOCK}.new", "xb") as file:
        # A file system without locks has leftovers told by their age alone.
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rename(folder / f"{_LOCK}.new", folder / _LOCK)
        yield
