"""The stored timeline of an SQLite file: the machine's uptime plus one offset for each boot, shared by all its processes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from pillarbox.clock import OffsetClock, uptime, wall
from pillarbox.storage.database import Step
from pillarbox.storage.queries import load_queries

if TYPE_CHECKING:
    from pillarbox.storage.sqlite import SqliteDatabase

_queries = load_queries("pillarbox.storage", "boot.sql")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_clock(database: SqliteDatabase) -> OffsetClock:
    """A clock that neither jumps nor differs between the processes on one file, whatever the wall clock is set to."""
    if not (_BOOT_ID.exists() and hasattr(time, "CLOCK_BOOTTIME")):
        return OffsetClock(counter=time.monotonic, offset=time.time() - time.monotonic(), wall=wall)

    boot = _BOOT_ID.read_text().strip()
    offset = database.write_blocking(lambda: _offset(boot, time.time() - uptime()))
    return OffsetClock(counter=uptime, offset=offset, wall=wall)


def _offset(boot: str, measured: float) -> Step[float]:
    yield _queries.create_boot()
    yield _queries.remember(boot=boot, offset=measured)
    rows = yield _queries.recall(boot=boot)
    return float(rows[0][0])
