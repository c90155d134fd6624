"""A place to try things out beside a database: on the same disk or server, seen by nobody else, gone afterwards."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from pillarbox.errors import Unavailable

_NAME = "pillarbox_bench_"


@contextmanager
def scratch_file(path: str) -> Iterator[str]:
    """The URL of a new SQLite file in a folder beside this one."""
    beside = Path(path).resolve().parent
    try:
        folder = tempfile.mkdtemp(prefix=f".{_NAME}", dir=beside)
    except OSError as error:
        reason = error.strerror or "it cannot be used"
        raise Unavailable(f"No folder can be made beside the database: {reason}; check the path.") from error
    try:
        yield f"sqlite:///{folder}/bench.db"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def scratch_schema(url: str) -> AbstractContextManager[str]:
    """The URL of a new PostgreSQL schema in this database; what is opened by it sees no other."""
    from pillarbox.storage.scratch_schema import schema

    return schema(url)
