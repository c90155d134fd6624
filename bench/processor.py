"""Processor time, which a busy machine does not stretch as it does the time of day."""

from __future__ import annotations

import os
import time
from pathlib import Path
from urllib.parse import urlsplit

_TICKS = os.sysconf("SC_CLK_TCK")


def spent_on(url: str) -> float:
    """Seconds that this process has computed so far, and on PostgreSQL the connections to this database too."""
    return time.process_time() + (0.0 if url.startswith("sqlite") else _backends(urlsplit(url).path[1:]))


def _backends(database: str) -> float:
    """A server's process for a connection calls itself by the user and the database."""
    spent = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            title = (process / "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
            if title.startswith("postgres: ") and title.split()[2:3] == [database]:
                # In nanoseconds; the ticks of `stat` are too coarse for one round.
                spent += int((process / "schedstat").read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return spent / 1e9


def spent_by(pid: int) -> float:
    """Seconds that a process and all below it have computed, and those of them that have ended."""
    children, ticks = _family(), 0
    waiting = [pid]
    while waiting:
        current = waiting.pop()
        waiting += children.get(current, ())
        ticks += sum(_times(current))
    return ticks / _TICKS


def _family() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        if fields := _stat(int(process.name)):
            found.setdefault(int(fields[1]), []).append(int(process.name))
    return found


def _times(pid: int) -> list[int]:
    return [int(field) for field in _stat(pid)[11:15]]


def _stat(pid: int) -> list[str]:
    """The fields behind a process's name; none where it has gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
