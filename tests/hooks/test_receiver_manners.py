"""However it is called, and whatever goes on around it, a receiver succeeds, says nothing and is soon gone."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pillarbox.__main__ import hook_arguments
from pillarbox.hooks import spool
from tests.hooks.receivers import HOOK, PROGRAM, locked, migrate_at, spooled_tools, stored, tool
from tests.servers.daemon import SECONDS, environment

WAITS_FOR_EVER = """from pillarbox.__main__ import main
from pillarbox.hooks import receiver
receiver.SILENCE_SECONDS = receiver.INPUT_SECONDS = receiver.RESCUE_SECONDS = 1000
main()"""
THROUGH_CLICK = [sys.executable, "-c", "from pillarbox.cli.main import main; main()"]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "pillarbox.db"
    asyncio.run(migrate_at(f"sqlite:///{path}"))
    return path


def run(*command: str, event: object, cwd: Path | None = None, **environ: str) -> None:
    given = json.dumps(event).encode()
    env = environment({}, {"PILLARBOX_SESSION": "s", **environ})
    done = subprocess.run(command, input=given, env=env, cwd=cwd, capture_output=True, timeout=SECONDS, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


CALLS = [
    ["--database", "URL", "hook"],
    ["--database=URL", "hook", "--agent", "claude"],
    ["--json", "--database", "URL", "hook"],
    ["--json", "hook", "--database", "URL"],
    ["--config", "none.toml", "hook", "--database=URL"],
    ["--database", "sqlite:///gone.db", "hook", "--database", "URL"],
    ["--nonsense", "--database", "URL", "--", "hook", "--agent", "install"],
    ["hook", "--json", "--database", "URL", "nonsense"],
    ["hook", "--database", "URL", "\udcff", "--agent"],
]


@pytest.mark.parametrize("words", CALLS, ids=" ".join)
def test_every_spelling_is_the_receiver(file: Path, words: list[str]) -> None:
    run(PROGRAM, *(word.replace("URL", f"sqlite:///{file}") for word in words), event=tool(1))
    assert stored(file) == [("s", 1, "tool-1")]


@pytest.mark.parametrize("words", [CALLS[1], CALLS[2], CALLS[3], CALLS[7]], ids=" ".join)
def test_the_command_line_itself_knows_the_receiver(file: Path, words: list[str]) -> None:
    run(*THROUGH_CLICK, *(word.replace("URL", f"sqlite:///{file}") for word in words), event=tool(1))
    assert stored(file) == [("s", 1, "tool-1")]


@pytest.mark.parametrize(
    "words",
    [
        ["hook", "install", "claude"],
        ["--json", "hook", "--database", "x", "uninstall", "claude"],
        ["hook", "--json", "--help"],
        ["--help", "hook"],
        ["--version", "hook"],
        ["hooks", "list"],
        ["--database", "hook"],
        ["--database", "hook", "status"],
        [],
    ],
    ids=" ".join,
)
def test_words_for_people_are_not_taken_for_events(words: list[str]) -> None:
    assert hook_arguments(words) is None


def test_the_settings_that_are_named_tell_the_spool(file: Path, tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text("[hooks]\nspool_dir = 'elsewhere'\n")
    run(PROGRAM, "--config", "other.toml", "--database", "sqlite:///gone.db", "hook", event=tool(1))
    assert spooled_tools("elsewhere") == ["tool-1"]


def test_modules_of_the_agents_folder_are_not_run(file: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for name in ("json", "select", "fcntl", "apsw"):
        (project / f"{name}.py").write_text("open('run', 'w').close(); raise SystemExit(2)")
    database = ["hook", "--database", f"sqlite:///{file}"]
    for options in (["-P"], []):
        run(sys.executable, *options, "-m", "pillarbox", *database, event=tool(1), cwd=project)
    assert not (project / "run").exists()
    assert [name for _, _, name in stored(file)] == ["tool-1", "tool-1"]


def test_an_agent_that_leaves_the_pipe_open_goes_on_without_a_wait(file: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WAITS_FOR_EVER, "hook", "--database", f"sqlite:///{file}"],
        env=environment({}, {"PILLARBOX_SESSION": "s"}),
        stdin=subprocess.PIPE,
    ) as process:
        assert process.stdin
        whole = json.dumps(tool(1) | {"tool_input": {}}).encode() + b"\n"
        cut = whole.index(b"}") + 1
        process.stdin.write(whole[:cut])
        process.stdin.flush()
        process.stdin.write(whole[cut:])
        process.stdin.flush()
        assert process.wait(SECONDS) == 0
    assert stored(file) == [("s", 1, "tool-1")]


def test_an_agent_that_says_nothing_is_left_after_two_seconds(file: Path) -> None:
    before = time.monotonic()
    with subprocess.Popen(
        [*HOOK, "--database", f"sqlite:///{file}"], env=environment({}, {}), stdin=subprocess.PIPE
    ) as process:
        assert process.wait(SECONDS) == 0
        assert time.monotonic() - before >= 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM])
def test_signals_are_ignored_before_anything_of_ours_is_imported(file: Path, number: signal.Signals) -> None:
    code = f"""import os, sys
sys.argv = ["pillarbox", "hook", "--database", "sqlite:///{file}"]
class Finder:
    def find_spec(self, name, path, target=None):
        if name.startswith("pillarbox."):
            print("said too much")
            os.kill(os.getpid(), {int(number)})
from pillarbox.__main__ import main
sys.meta_path.insert(0, Finder())
main()"""
    run(sys.executable, "-c", code, event=tool(1))
    assert stored(file) == [("s", 1, "tool-1")]


def test_an_event_that_takes_too_long_to_store_goes_to_the_spool(file: Path, tmp_path: Path) -> None:
    code = f"""import sys, time
sys.argv = ["pillarbox", "hook", "--database", "sqlite:///{file}"]
from pillarbox.hooks import receiver
receiver.store = lambda *_: time.sleep({SECONDS})
receiver.RESCUE_SECONDS = 0.1
from pillarbox.__main__ import main
main()"""
    run(sys.executable, "-c", code, event=tool(1))
    assert stored(file) == []
    assert spooled_tools(f"{file}.spool") == ["tool-1"]


def test_a_process_that_hangs_before_it_has_read_anything_ends(file: Path) -> None:
    code = f"""import sys, time
sys.argv = ["pillarbox", "hook"]
class Hang:
    def find_spec(self, name, path, target=None):
        if name.startswith("pillarbox.hooks"):
            time.sleep({2 * SECONDS})
import pillarbox.__main__ as program
program._UNTIL_READ = 0.1
sys.meta_path.insert(0, Hang())
program.main()"""
    run(sys.executable, "-c", code, event=tool(1))


def test_an_event_finds_its_place_whatever_its_session_was_called_meanwhile(file: Path) -> None:
    url = f"sqlite:///{file}"
    spool_dir = f"{file}.spool"
    run(*HOOK, "--database", url, event=tool(0, "n"))
    with locked(file):
        for number, session in ((1, "s"), (2, ""), (3, "s"), (4, "")):
            run(*HOOK, "--database", url, event=tool(number, "n"), PILLARBOX_SESSION=session)
    assert spooled_tools(spool_dir) == ["tool-1", "tool-2", "tool-3", "tool-4"]


def test_a_spool_that_cannot_take_more_does_not_cost_the_event(file: Path) -> None:
    folder = f"{file}.spool"
    url = f"sqlite:///{file}"
    with locked(file):
        run(*HOOK, "--database", url, event=tool(1))
    (path,) = Path(folder).iterdir()
    Path(f"{path}.aside").touch()
    held = spool.lock(folder, "session:s", seconds=0)
    assert held
    run(*HOOK, "--database", url, event=tool(2))
    held.close()
    assert [name for _, _, name in stored(file)] == ["tool-2"]
    os.unlink(f"{path}.aside")
    assert spooled_tools(folder) == ["tool-1"]
