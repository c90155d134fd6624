import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from pillarbox.cli.main import cli
from pillarbox.sync import Pillarbox
from tests.servers.daemon import SECONDS, environment

ASK_BASH = """
source <(pillarbox completion bash)
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_pillarbox_completion pillarbox
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def bash(words: str) -> set[str]:
    """What bash offers after these words."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK_BASH.format(words=words)],
        env=environment({}, {"PATH": path}),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return set(done.stdout.split())


def bash_knows(words: str) -> set[str]:
    """The same for names out of the database, which a busy machine may find too late for one who waits: Tab is pressed again."""
    return next(filter(None, (bash(words) for _ in range(5))), set())


def test_bash_completes_commands_options_and_words() -> None:
    assert {"send", "sessions", "serve", "status", "doctor"} <= bash("pillarbox ''")
    assert bash("pillarbox messages r") == {"retry"}
    assert "--tenant" in bash("pillarbox send email --te")
    assert bash("pillarbox send em") == {"email"}


def test_bash_completes_names_that_the_database_knows(sqlite_url: str, tmp_path: Path) -> None:
    with Pillarbox.open(sqlite_url) as box:
        box.sessions.open(session_id="support-desk", target={"kind": "none"})
        box.tenants.set("acme")
    named = f"pillarbox --database {sqlite_url}"
    assert bash_knows(f"{named} sessions show su") == {"support-desk"}
    assert bash_knows(f"{named} send email --tenant ''") == {"acme"}
    assert bash(f"pillarbox --database sqlite:///{tmp_path}/other.db sessions show ''") == set()
    assert not (tmp_path / "other.db").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_of_its_own(shell: str) -> None:
    done = CliRunner().invoke(cli, ["completion", shell])
    assert (done.exit_code, done.stderr) == (0, "")
    assert f"{shell}_complete" in done.stdout
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=done.stdout, text=True, check=True, timeout=SECONDS)


ASK_FISH = "pillarbox completion fish | source; complete -C {words}"
# What it would show goes through `compadd` and `_describe`, which work only while somebody types.
ASK_ZSH = """
source <(pillarbox completion zsh)
compadd() {{ print -l -- ${{(P)@[-1]}} }}
_describe() {{ print -l -- ${{${{(P)@[-2]}}%%:*}} }}
words=({words}); CURRENT=$#words
_pillarbox_completion
"""


@pytest.mark.parametrize(
    ("shell", "options", "script"), [("fish", ["--no-config"], ASK_FISH), ("zsh", ["-f"], ASK_ZSH)], ids=["fish", "zsh"]
)
def test_other_shells_complete_where_they_are_installed(
    shell: str, options: list[str], script: str, tmp_path: Path
) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed.")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for typed, offered in (("pillarbox mess", "messages"), ("pillarbox send em", "email")):
        words = f"'{typed}'" if shell == "fish" else typed
        done = subprocess.run(
            [program, *options, "-c", script.format(words=words)],
            env=environment({}, {"PATH": path, "HOME": str(tmp_path), "TERM": "dumb"}),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert [line.partition("\t")[0] for line in done.stdout.split("\n") if line] == [offered]


def test_another_shell_is_refused() -> None:
    assert CliRunner().invoke(cli, ["completion", "tcsh"]).exit_code == 2
