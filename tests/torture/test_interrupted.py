"""Whoever has seen enough presses Ctrl-C, and nothing is left: no process, no folder, no mounted disk."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = 120.0


@pytest.mark.long
def test_an_interrupted_run_says_so_in_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torture", "--seed", "5", "--light", "--minutes", "10"]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            deadline, waiting = time.monotonic() + SECONDS, threading.Event()
            while not any(file.stat().st_size for file in tmp_path.glob("*/faults.jsonl")):
                assert time.monotonic() < deadline
                assert process.poll() is None
                waiting.wait(0.1)
            # As a terminal does it: everybody in the group hears of it.
            os.killpg(process.pid, signal.SIGINT)
            said, _ = process.communicate(timeout=SECONDS)
        finally:
            process.kill()
    assert process.returncode == 128 + signal.SIGINT
    assert said.splitlines() == ["seed 5", "interrupted: round 0 was not checked, nothing is left of it"]
    assert list(tmp_path.iterdir()) == []
    assert str(tmp_path) not in Path("/proc/mounts").read_text()
    assert [each for each in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path) in command_of(each)] == []


def command_of(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
