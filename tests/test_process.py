import os
import subprocess
import sys
from pathlib import Path

import pytest

from pillarbox import process
from pillarbox.process import holder, is_dead


def test_this_process_is_alive_and_one_that_ended_is_dead() -> None:
    code = "from pillarbox.process import holder; print(holder('a/node'))"
    name = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert is_dead(name)
    assert not is_dead(holder("a/node"))


def test_a_process_that_proc_hides_is_not_taken_for_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As hidepid=2 and ProtectProc=invisible do with the processes of other users.
    name = holder("node")
    monkeypatch.setattr(process, "_PROC", tmp_path)
    assert not is_dead(name)


def test_a_pid_that_another_process_has_by_now_is_dead() -> None:
    node, place, serial = holder("node").split("/")
    *machine, pid, started = place.split(".")
    assert pid == str(os.getpid())
    assert is_dead("/".join([node, ".".join([*machine, pid, str(int(started) + 1)]), serial]))


@pytest.mark.parametrize("name", ["", "node", "node/-/1", "a/b.c.d.e/1", "node/another-boot.1.1.1/1"])
def test_nobody_can_tell_of_another_machine(name: str) -> None:
    assert not is_dead(name)
