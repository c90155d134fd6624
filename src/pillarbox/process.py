"""Who holds a lease, told so that another process on the same machine can see whether it is still alive.

On Linux a holder names the boot, the pid namespace, the pid and the moment it started: together they belong to one process for
ever. Elsewhere, and for holders of other machines, nobody can tell, and leases end by time alone.
"""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_PROC = Path("/proc")
_ENDED = "ended"


@dataclass(frozen=True, slots=True)
class _Machine:
    boot: str
    namespace: str


def holder(node: str) -> str:
    """A name for what this process holds, unlike any other's."""
    machine, started = _machine(), _started(os.getpid())
    place = f"{machine.boot}.{machine.namespace}.{os.getpid()}.{started}" if machine and started else "-"
    return f"{node}/{place}/{uuid.uuid4().hex}"


def neighbourhood() -> str:
    """What is in the names of all holders whose death can be seen from here; nothing where none can."""
    machine = _machine()
    return f"/{machine.boot}.{machine.namespace}." if machine else ""


def is_dead(name: str) -> bool:
    """Whether a holder is known to have ended: false also where that cannot be known."""
    place = name.rsplit("/", 2)[-2] if name.count("/") >= 2 else "-"
    parts, machine = place.split("."), _machine()
    if machine is None or parts[:2] != [machine.boot, machine.namespace] or len(parts) != 4:
        return False
    pid = int(parts[2])
    started = _started(pid)
    return started != parts[3] if started is not None else not _may_be_alive(pid)


@cache
def _machine() -> _Machine | None:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return _Machine(boot, str((_PROC / "self/ns/pid").stat().st_ino))
    except OSError:
        return None


def _started(pid: int) -> str | None:
    """When a process started, in ticks since the boot; `ended` for a zombie, None when there is none to be seen."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return _ENDED if fields[0] in "ZX" else fields[19]


def _may_be_alive(pid: int) -> bool:
    """Whether a pid that /proc does not show is taken all the same: hidepid and ProtectProc hide other users' processes."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
