"""Small disks of a test's own, and what fills them."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(place: Path, mebibytes: int = 8) -> Iterator[Path]:
    """A disk of so many MiB, mounted at `place`; skips where nothing may be mounted."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m,mode=0755", "tmpfs", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path) -> Path:
    """Take every byte that is left, in a file that can be deleted again."""
    filler = disk / "somebody-elses.log"
    with filler.open("wb", buffering=0) as file:
        for size in (65_536, 4096, 1):
            try:
                while file.write(bytes(size)):
                    pass
            except OSError:
                continue
    assert free(disk) == 0
    return filler


def free(disk: Path) -> int:
    room = os.statvfs(disk)
    return room.f_bavail * room.f_frsize
