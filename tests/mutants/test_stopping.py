"""Ctrl-C ends what takes minutes with one line, and leaves nothing: no process, no folder."""

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SIMULATION = ("tests.simulation", "--lane", "engine", "--seeds", "1000000", "--jobs", "2")
MUTANTS = ("mutants", "--only", "order by serial id")
HOSTILE = ("tests.hostile", "--room", "forms")


@pytest.mark.parametrize(
    ("program", "told", "code"),
    [
        (SIMULATION, signal.SIGINT, 130),
        (MUTANTS, signal.SIGINT, 130),
        pytest.param(MUTANTS, signal.SIGTERM, 143, marks=pytest.mark.long),
        pytest.param(HOSTILE, signal.SIGINT, 130, marks=pytest.mark.long),
    ],
    ids=["simulation", "mutants", "mutants at SIGTERM", "hostile"],
)
def test_told_to_stop_it_says_one_line_and_leaves_nothing(
    program: tuple[str, ...], told: signal.Signals, code: int
) -> None:
    # PostgreSQL's user has to be able to enter.
    with tempfile.TemporaryDirectory(prefix="pillarbox-tests-") as folder:
        place = Path(folder)
        place.chmod(0o755)
        with subprocess.Popen(
            [sys.executable, "-m", *program],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": folder},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as running:
            assert running.stdout is not None
            begun = running.stdout.readline()
            # As a terminal does: to the program and to whatever it has started.
            os.killpg(running.pid, told)
            said, _ = running.communicate(timeout=60)
        assert "Traceback" not in begun + said
        assert said.splitlines()[-1:] == ["interrupted; nothing is left"], said
        assert running.returncode == code
        assert still_running(folder) == []
        assert list(place.iterdir()) == []


def still_running(folder: str) -> list[str]:
    """The processes that were told to work in a folder, or do."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            told = (process / "environ").read_bytes()
            if folder.encode() in told or str((process / "cwd").readlink()).startswith(folder):
                found.append((process / "cmdline").read_text())
    return found
