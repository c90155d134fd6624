"""Whoever interrupts a measurement reads one line and finds nothing left behind."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bench.__main__ import known


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """Nothing is measured in memory, where the folders of tests may be."""
    with TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


IN_THE_BACKGROUND = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh"]


@pytest.mark.parametrize(
    ("number", "before"),
    [(signal.SIGINT, []), (signal.SIGTERM, []), (signal.SIGTERM, IN_THE_BACKGROUND)],
    ids=["ctrl-c", "terminated", "terminated in a script's background"],
)
def test_an_interrupted_measurement_says_one_line_and_leaves_nothing(
    number: signal.Signals, before: list[str], on_disk: Path
) -> None:
    measure = [sys.executable, "-m", "bench", "--only", "Pillarbox outbound on sqlite", "--folder", str(on_disk)]
    command = [*before, *measure]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as measuring:
        assert measuring.stderr
        assert measuring.stderr.readline() == "Pillarbox outbound on sqlite ...\n"
        measuring.send_signal(number)
        said = measuring.stderr.read()
    assert said == "interrupted; nothing is left behind\n"
    assert measuring.returncode == 128 + number
    assert list(on_disk.iterdir()) == []


def test_what_nothing_is_called_is_known_before_anything_is_measured() -> None:
    assert known("growth", "delivered,sqlite,inbound")
    assert not known("growth", "delivered,mysql")
    assert known("table", "on redis")
    assert not known("table", "Kafka")
    assert known("inbox", "redis")
    assert not known("hooks", "redis")
    assert not known("soak", "sqlite"), "which is all there is"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    measure = [sys.executable, "-m", "bench", "--folder", str(tmp_path / "nowhere")]
    said = subprocess.run(measure, stderr=subprocess.PIPE, text=True, check=False)
    assert said.returncode == 2
    assert said.stderr.endswith(f"{tmp_path}/nowhere: there is no such folder\n")
