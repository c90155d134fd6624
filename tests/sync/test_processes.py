"""What only a process of its own can show: a fork, a Ctrl-C, an end without a close."""

import signal
import subprocess
import sys
from pathlib import Path

from tests.servers.daemon import SECONDS, Lines, environment

FORK = """
import os, sys
from pillarbox.errors import PillarboxError
from pillarbox.sync import Pillarbox

with Pillarbox.open(sys.argv[1]) as box:
    box.sessions.open(session_id="s1", target={"kind": "none"})
    shared = Pillarbox.shared(sys.argv[1])
    assert Pillarbox.shared(sys.argv[1]) is shared
    child = os.fork()
    if child == 0:
        try:
            box.inbound.status()
        except PillarboxError as error:
            print(error, flush=True)
        own = Pillarbox.shared(sys.argv[1])
        own.hooks.post("s1", "from_the_child")
        own.close()
        box.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    print([event.event_type for event in box.hooks.list()])
"""

INTERRUPTED = """
import signal, sys
from pillarbox.sync import Pillarbox

# A shell's background ignores Ctrl-C, and whatever is started there does too.
signal.signal(signal.SIGINT, signal.default_int_handler)

with Pillarbox.open(sys.argv[1]) as box:
    @box.inbound.target("echo")
    def echo(message):
        print("running", flush=True)

    box.sessions.open(session_id="s1", target={"kind": "python", "name": "echo"})
    box.inbound.enqueue(session_id="s1", origin="terminal", content="x")
    try:
        box.run()
    except KeyboardInterrupt:
        print(box.inbound.get(1).status, flush=True)
print("closed", flush=True)
"""

NEVER_CLOSED = """
import sys
from pillarbox.sync import Pillarbox

box = Pillarbox.shared(sys.argv[1])
print(box.sessions.open(session_id="s1", target={"kind": "none"}).session_id)
"""


def script(tmp_path: Path, text: str, url: str) -> list[str]:
    file = tmp_path / "script.py"
    file.write_text(text)
    return [sys.executable, "-W", "ignore::DeprecationWarning", str(file), url]


def test_a_forked_child_is_told_to_open_its_own_and_a_shared_box_does(tmp_path: Path, sqlite_url: str) -> None:
    done = subprocess.run(
        script(tmp_path, FORK, sqlite_url),
        env=environment({}, {}),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    told, events = done.stdout.splitlines()
    assert "open one after the fork" in told
    assert events == "['from_the_child']"


def test_ctrl_c_lets_what_is_under_way_end_and_closes(tmp_path: Path, sqlite_url: str) -> None:
    process = subprocess.Popen(
        script(tmp_path, INTERRUPTED, sqlite_url),
        env=environment({}, {}),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout
    assert process.stderr
    out, errors = Lines(process.stdout), Lines(process.stderr)
    out.expect("^running$")
    process.send_signal(signal.SIGINT)
    assert process.wait(SECONDS) == 0
    assert out.whole().splitlines() == ["running", "delivered", "closed"]
    assert errors.whole() == ""


def test_a_program_that_ends_without_closing_ends_quietly(tmp_path: Path, sqlite_url: str) -> None:
    done = subprocess.run(
        script(tmp_path, NEVER_CLOSED, sqlite_url),
        env=environment({}, {}),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "s1\n", "")
