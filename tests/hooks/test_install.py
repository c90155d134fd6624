"""Agents' settings as people have them: we are written in, and taken out as if we had never been there."""

import json
import os
import shlex
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click.testing
import pytest

from pillarbox.cli.main import cli
from pillarbox.hooks.agents.known import AGENTS
from tests.hooks.agent_settings import CLAUDE_SETTINGS, CODEX_SETTINGS, GEMINI_SETTINGS, commands, put

Run = Callable[..., click.testing.Result]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own, and nothing of ours in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in os.environ:
        if name.startswith("PILLARBOX_") and not name.startswith("PILLARBOX_TEST_"):
            monkeypatch.delenv(name)
    for agent in AGENTS.values():
        monkeypatch.delenv(agent.home_variable, raising=False)
    return tmp_path


@pytest.fixture
def run() -> Run:
    def run(*arguments: str) -> click.testing.Result:
        return click.testing.CliRunner().invoke(cli, ["hook", *arguments])

    return run


@pytest.mark.parametrize(
    ("agent", "file", "before"),
    [
        ("claude", ".claude/settings.json", CLAUDE_SETTINGS),
        ("claude", ".claude/settings.json", CLAUDE_SETTINGS.replace("\n", "\r\n")),
        ("claude", ".claude/settings.json", '{"model":"opus"}'),
        ("claude", ".claude/settings.json", "{}\n"),
        ("claude", ".claude/settings.json", '{ "hooks" : { } }'),
        ("claude", ".claude/settings.json", '{\n "hooks": {"Stop": [ ], "Notification": [{"hooks": []}]}\n}'),
        ("gemini", ".gemini/settings.json", GEMINI_SETTINGS),
        ("codex", ".codex/hooks.json", '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]}}'),
        ("codex", ".codex/config.toml", CODEX_SETTINGS),
        ("codex", ".codex/config.toml", CODEX_SETTINGS.replace("\n", "\r\n")),
        ("codex", ".codex/config.toml", CODEX_SETTINGS.rstrip("\n")),
    ],
)
def test_settings_are_the_same_bytes_after_install_and_uninstall(
    agent: str, file: str, before: str, run: Run, home: Path
) -> None:
    path = put(home / file, before)
    done = run("install", agent, "--yes")
    assert (done.exit_code, path.read_bytes() == before.encode()) == (0, False), done.output
    ours = {event: [line for line in lines if "pillarbox" in line] for event, lines in commands(path).items()}
    assert {event for event, lines in ours.items() if len(lines) == 1} == set(AGENTS[agent].events)

    assert run("uninstall", agent, "--yes").exit_code == 0
    assert path.read_bytes() == before.encode()


def test_what_others_wrote_stays_in_its_place(run: Run, home: Path) -> None:
    path = put(home / ".claude/settings.json", CLAUDE_SETTINGS)
    assert run("install", "claude", "--yes").exit_code == 0
    after = path.read_text().splitlines()
    assert [
        line for line in CLAUDE_SETTINGS.splitlines() if line.rstrip(",") not in {each.rstrip(",") for each in after}
    ] == ["""        "Stop": [ {"hooks": [{"type": "command", "command": "say 'done'"}]} ],"""]
    assert commands(path)["Stop"][0] == "say 'done'"
    assert list(json.loads(path.read_text())) == list(json.loads(CLAUDE_SETTINGS))


def test_timeouts_are_small_and_in_the_agents_own_unit(run: Run, home: Path) -> None:
    for agent, file, timeout in (
        ("claude", ".claude/settings.json", 5),
        ("codex", ".codex/hooks.json", 5),
        ("gemini", ".gemini/settings.json", 5000),
    ):
        assert run("install", agent, "--yes").exit_code == 0
        hooks = json.loads((home / file).read_text())["hooks"]
        assert {group["hooks"][0]["timeout"] for groups in hooks.values() for group in groups} == {timeout}


@pytest.mark.parametrize("agent", ["claude", "codex", "gemini"])
def test_a_file_that_install_made_is_gone_after_uninstall(agent: str, run: Run) -> None:
    path = AGENTS[agent].settings_files()[0]
    assert run("install", agent, "--yes").exit_code == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert run("uninstall", agent, "--yes").exit_code == 0
    assert list(path.parent.iterdir()) == []


def test_a_toml_file_that_install_made_is_gone_after_uninstall(run: Run, home: Path) -> None:
    path = home / "config.toml"
    assert run("install", "codex", "--yes", "--settings", str(path)).exit_code == 0
    assert set(commands(path)) == set(AGENTS["codex"].events)
    assert run("uninstall", "codex", "--yes", "--settings", str(path)).exit_code == 0
    assert not path.exists()


def test_installing_twice_changes_nothing(run: Run, home: Path) -> None:
    path = put(home / ".claude/settings.json", CLAUDE_SETTINGS)
    run("install", "claude", "--yes")
    first = path.stat()
    done = run("install", "claude")
    assert (done.exit_code, done.stdout) == (0, "Claude Code is set up already.\n")
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (first.st_ino, first.st_mtime_ns)


def test_lines_end_as_they_did_in_the_file(run: Run, home: Path) -> None:
    path = put(home / ".claude/settings.json", CLAUDE_SETTINGS.replace("\n", "\r\n"))
    run("install", "claude", "--yes")
    assert path.read_bytes().count(b"\n") == path.read_bytes().count(b"\r\n")


def test_our_entries_stay_where_the_user_moved_them(run: Run, home: Path) -> None:
    path = put(home / ".claude/settings.json", CLAUDE_SETTINGS)
    run("install", "claude", "--yes")
    moved = json.loads(path.read_text())
    moved["hooks"]["Stop"].reverse()
    put(path, json.dumps(moved))
    assert run("install", "claude").stdout == "Claude Code is set up already.\n"
    assert json.loads(path.read_text()) == moved


@pytest.mark.parametrize(("agent", "file"), [("claude", "settings.json"), ("codex", "config.toml")])
def test_another_database_replaces_our_entry(agent: str, file: str, run: Run, home: Path) -> None:
    path = put(home / file, CODEX_SETTINGS if file.endswith("toml") else CLAUDE_SETTINGS)
    for name in ("one", "two"):
        done = run("--database", f"sqlite:///{name}.db", "install", agent, "--yes", "--settings", str(path))
        assert done.exit_code == 0, done.output
    lines = [line for lines in commands(path).values() for line in lines if "pillarbox" in line]
    assert (len(lines), len(set(lines))) == (len(AGENTS[agent].events), 1)
    assert f"--database sqlite:///{home}/two.db --spool-dir {home}/two.db.spool" in lines[0]


@pytest.mark.parametrize(
    ("agent", "name", "text", "said"),
    [
        ("claude", "s.json", "{,}", "is not valid JSON (line 1, column 2"),
        ("claude", "s.json", "", "is not valid JSON"),
        ("gemini", "s.json", '{\n  // a comment\n  "a": 1\n}', "comments are not taken"),
        ("claude", "s.json", "[" * 100_000, "is not valid JSON"),
        ("claude", "s.json", '{"a": NaN}', "is not valid JSON"),
        ("claude", "s.json", "[]", "something else than an object"),
        ("claude", "s.json", '{"hooks": []}', "`hooks` that are not an object"),
        ("claude", "s.json", '{"hooks": {"Stop": {}}}', "`hooks.Stop` that is not a list"),
        ("claude", "s.json", '{"hooks": {}, "hooks": {}}', "names a key twice"),
        ("codex", "s.toml", "a = ", "is not valid TOML"),
        ("codex", "s.toml", "[hooks]\nStop = [{hooks = []}]\n", "edit it by hand"),
        ("codex", "s.toml", "hooks = {}\n", "edit it by hand"),
        ("codex", "s.toml", 'text = """\n', "is not valid TOML"),
        ("gemini", "s.toml", "", "in JSON, not in TOML"),
    ],
)
def test_settings_that_cannot_be_edited_safely_are_refused_untouched(
    agent: str, name: str, text: str, said: str, run: Run, home: Path
) -> None:
    path = put(home / name, text)
    done = run("install", agent, "--yes", "--settings", str(path))
    assert (done.exit_code, said in done.stderr, done.stderr.count("\n")) == (2, True, 1), done.output
    assert path.read_text() == text
    assert [each.name for each in home.iterdir()] == [name]


def test_bytes_that_are_no_text_are_refused(run: Run, home: Path) -> None:
    (home / "s.json").write_bytes(b'{"a": "\xff"}')
    done = run("install", "claude", "--yes", "--settings", "s.json")
    assert (done.exit_code, done.stderr) == (2, "settings: s.json is not UTF-8 text. Nothing was changed.\n")


def test_a_read_only_file_stays_as_it_is(run: Run, home: Path) -> None:
    path = put(home / "s.json", "{}")
    path.chmod(0o444)
    done = run("install", "claude", "--yes", "--settings", str(path))
    assert (done.exit_code, "is read-only" in done.stderr, path.read_text()) == (4, True, "{}")


def test_a_link_stays_and_its_file_is_written(run: Run, home: Path) -> None:
    real = put(home / "dotfiles/claude.json", CLAUDE_SETTINGS)
    real.chmod(0o640)
    link = home / ".claude/settings.json"
    link.parent.mkdir()
    link.symlink_to("../dotfiles/claude.json")
    assert run("install", "claude", "--yes").exit_code == 0
    assert link.is_symlink()
    assert "pillarbox" in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert [each.name for each in real.parent.iterdir()] == ["claude.json"]
    assert run("uninstall", "claude", "--yes").exit_code == 0
    assert real.read_text() == CLAUDE_SETTINGS


def test_a_copy_of_what_was_there_is_kept_beside_it(run: Run, home: Path) -> None:
    put(home / "s.json", CLAUDE_SETTINGS).chmod(0o600)
    answer = json.loads(run("install", "claude", "--yes", "--json", "--settings", "s.json").stdout)
    copy = Path(answer["backups"][0])
    assert (answer["changed"], answer["settings"]) == (True, [str(home / "s.json")])
    assert copy.name.startswith("s.json.pillarbox-backup-")
    assert (copy.read_text(), stat.S_IMODE(copy.stat().st_mode)) == (CLAUDE_SETTINGS, 0o600)
    assert answer["command"] in commands(home / "s.json")["Stop"]


def test_without_a_person_or_yes_the_change_is_only_shown(run: Run, home: Path) -> None:
    path = put(home / "s.json", CLAUDE_SETTINGS)
    done = run("install", "claude", "--settings", "s.json")
    assert (done.exit_code, "add --yes" in done.stderr) == (2, True)
    assert done.stdout.startswith("--- s.json\n+++ s.json\n@@ ")
    assert done.stdout.count("pillarbox hook --agent claude --database") == len(AGENTS["claude"].events)
    assert path.read_text() == CLAUDE_SETTINGS
    assert len(list(home.iterdir())) == 1


@pytest.mark.parametrize(("answer", "code", "changed"), [("y\n", 0, True), ("n\n", 1, False)])
def test_a_person_is_asked_after_seeing_the_change(answer: str, code: int, changed: bool, home: Path) -> None:
    path = put(home / "s.json", "{}")
    asked, person = os.openpty()
    arguments = [sys.executable, "-m", "pillarbox", "hook", "install", "claude", "--settings", "s.json"]
    with subprocess.Popen(arguments, stdin=person, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        os.write(asked, answer.encode())
        said = process.communicate(timeout=60)[0].decode()
    os.close(asked)
    os.close(person)
    assert process.returncode == code, said
    assert said.index('+{"hooks": {') < said.index("Make this change?")
    assert (path.read_text() != "{}") == changed


def test_a_password_is_not_written_into_an_agents_settings(run: Run, home: Path) -> None:
    for url in ("postgresql://ada:s3cret@db/box", "postgresql://ada@db/box?password=s3cret"):
        done = run("--database", url, "install", "claude", "--yes", "--settings", "s.json")
        assert (done.exit_code, "set PILLARBOX_DATABASE where the agent runs" in done.stderr) == (0, True), done.output
        assert "s3cret" not in (home / "s.json").read_text() + done.output
        assert "--database" not in (home / "s.json").read_text()


def test_a_server_without_a_password_is_named(run: Run, home: Path) -> None:
    run("--database", "postgresql://ada@db/box", "install", "claude", "--yes", "--settings", "s.json")
    assert "--database postgresql://ada@db/box --spool-dir /" in (home / "s.json").read_text()


def test_the_spool_of_the_settings_is_used(run: Run, home: Path) -> None:
    put(home / "pillarbox.toml", '[hooks]\nspool_dir = "my spool"\n')
    run("install", "claude", "--yes", "--settings", "s.json")
    words = shlex.split(commands(home / "s.json")["Stop"][0])
    assert words[words.index("--spool-dir") + 1] == str(home / "my spool")


def test_agents_whose_settings_lie_elsewhere_are_found(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "c"))
    monkeypatch.setenv("CODEX_HOME", str(home / "x"))
    monkeypatch.setenv("GEMINI_CLI_HOME", str(home / "g"))
    for agent, file in (
        ("claude", "c/settings.json"),
        ("codex", "x/hooks.json"),
        ("gemini", "g/.gemini/settings.json"),
    ):
        assert run("install", agent, "--yes").exit_code == 0
        assert (home / file).exists()


def test_codex_has_its_hooks_where_it_had_them(run: Run, home: Path) -> None:
    toml = put(home / ".codex/config.toml", 'model = "x"\n')
    run("install", "codex", "--yes")
    assert set(commands(home / ".codex/hooks.json")) == set(AGENTS["codex"].events)
    put(toml, CODEX_SETTINGS)
    assert run("install", "codex").stdout == "Codex is set up already.\n"
    run("uninstall", "codex", "--yes")
    run("install", "codex", "--yes")
    assert not (home / ".codex/hooks.json").exists()
    assert set(commands(toml)) == set(AGENTS["codex"].events)


def test_hooks_that_are_turned_off_are_told_of(run: Run, home: Path) -> None:
    put(home / ".claude/settings.json", '{"disableAllHooks": true}')
    put(home / ".codex/config.toml", "[features]\nhooks = false\n")
    put(home / ".gemini/settings.json", '{"hooksConfig": {"enabled": false}}')
    for agent in AGENTS:
        assert "turns all hooks off" in run("install", agent, "--yes").stderr


def test_uninstalling_what_was_never_installed_changes_nothing(run: Run, home: Path) -> None:
    put(home / ".gemini/settings.json", GEMINI_SETTINGS)
    done = run("uninstall", "gemini")
    assert (done.exit_code, done.stdout) == (0, "Gemini CLI sends nothing here, and did not before.\n")
    assert run("uninstall", "claude").exit_code == 0
    assert not (home / ".claude").exists()


def test_the_installed_command_is_the_receiver(run: Run, home: Path) -> None:
    """Its database is missing, so the event waits in the spool."""
    put(home / "it's here/.keep", "")
    database = f"sqlite:///{home}/it's here/box.db"
    assert run("--database", database, "install", "claude", "--yes", "--settings", "s.json").exit_code == 0
    event = json.dumps({"hook_event_name": "UserPromptSubmit", "session_id": "native-1", "prompt": "hello"})
    done = subprocess.run(
        ["/bin/sh", "-c", commands(home / "s.json")["UserPromptSubmit"][0]],
        input=event,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    spooled = [file.read_text() for file in (home / "it's here/box.db.spool").iterdir()]
    (record,) = [json.loads(text) for text in spooled if text]
    assert (record["event_type"], record["payload"]["prompt"]) == ("user_prompt_submit", "hello")
