"""The wall clock of one process can be stepped while it runs, and nothing else of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from torture.clocks import SteppedClock, build_shim

TELL = "import sys, time\nfor _ in sys.stdin: print(time.time(), time.monotonic(), flush=True)"


def test_a_process_sees_its_wall_clock_stepped_and_its_steady_one_not(tmp_path: Path) -> None:
    shim = build_shim(tmp_path)
    if shim is None:
        pytest.skip("no C compiler is here")
    clock = SteppedClock(shim, tmp_path / "clock")
    with subprocess.Popen(
        [sys.executable, "-c", TELL],
        env=os.environ | clock.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout

        def ask() -> tuple[float, float]:
            assert process.stdin
            assert process.stdout
            process.stdin.write("\n")
            process.stdin.flush()
            wall, steady = process.stdout.readline().split()
            return float(wall), float(steady)

        wall, steady = ask()
        seen = {}
        for days in (40, -40, 0):
            clock.step(days * 86_400)
            now, later = ask()
            assert later >= steady
            seen[days] = round((now - wall - (later - steady)) / 86_400, 4)
        process.stdin.close()
    assert seen == {40: 40, -40: -40, 0: 0}
