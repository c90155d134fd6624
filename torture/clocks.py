"""Wall clocks of single processes that can be stepped, by a library that is loaded before all others."""

from __future__ import annotations

import shutil
import struct
import subprocess
from functools import cache
from pathlib import Path

_SOURCE = Path(__file__).with_name("clock_shim.c")


class SteppedClock:
    """One process's clock: `environ` makes it follow the file, `step` moves it while the process runs."""

    def __init__(self, shim: Path, file: Path) -> None:
        self._file = file
        self.step(0)
        self.environ = {"LD_PRELOAD": str(shim), "TORTURE_CLOCK": str(file)}

    def step(self, seconds: float) -> None:
        """Be so many seconds off from now on."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("=q", int(seconds * 1_000_000_000)))


@cache
def build_shim(folder: Path) -> Path | None:
    """The library, or nothing where there is no compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    shim = folder / "clock_shim.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(shim), str(_SOURCE), "-ldl"]
    return shim if subprocess.run(command, capture_output=True, check=False).returncode == 0 else None
