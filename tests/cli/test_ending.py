"""A command that is told to end tidies up first, and does not insist on it."""

import signal
import subprocess
import sys

PROGRAM = """
import signal
from pillarbox.cli.ending import ending_in_order

with ending_in_order():
    try:
        print("begun", flush=True)
        signal.pause()
    finally:
        print("tidying", flush=True)
        while True:
            signal.pause()
"""


def test_a_second_sigterm_ends_a_command_that_does_not_get_done_with_tidying_up() -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as started:
        try:
            assert started.stdout is not None
            assert started.stdout.readline() == "begun\n"
            started.send_signal(signal.SIGTERM)
            assert started.stdout.readline() == "tidying\n"
            started.send_signal(signal.SIGTERM)
            assert started.wait(timeout=30) == -signal.SIGTERM
        finally:
            started.kill()
