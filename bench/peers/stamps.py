"""What a job tells the measuring process: when it was enqueued and when it began; and a worker, when it begins to look."""

from __future__ import annotations

import os
import struct
import time

PIPE = "PILLARBOX_BENCH_PIPE"
RECORD = struct.Struct("dd")
PADDING = "hello world " * 9
_open: dict[int, int] = {}


def text() -> str:
    """What is enqueued: this instant, which all processes of a machine read from one clock, and a hundred letters."""
    return f"{time.monotonic()!r} {PADDING}"


def handle(said: str) -> None:
    """Report one job."""
    began = time.monotonic()
    _report(float(said[: said.index(" ")]), began)


def looking() -> None:
    """Report that from here on jobs are looked for; enqueued at no time, it is none."""
    _report(0.0, time.monotonic())


def _report(sent: float, began: float) -> None:
    """A whole record is written at once or not at all, whoever else writes."""
    process = os.getpid()
    if process not in _open:
        _open[process] = os.open(os.environ[PIPE], os.O_WRONLY)
    os.write(_open[process], RECORD.pack(sent, began))
