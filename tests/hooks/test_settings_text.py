"""Editing settings as text: nothing that others wrote moves or changes."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pillarbox.errors import InvalidInput, Refused
from pillarbox.hooks.agents import json_text, toml_text, wiring
from pillarbox.hooks.agents.files import replace
from pillarbox.hooks.agents.known import AGENTS
from tests.hooks.agent_settings import CLAUDE_SETTINGS, CODEX_SETTINGS, COMMAND, commands, put

CLAUDE, CODEX = AGENTS["claude"], AGENTS["codex"]


def test_entries_written_by_another_installation_are_replaced(tmp_path: Path) -> None:
    path = put(tmp_path / "s.json", CLAUDE_SETTINGS)
    for program in ("/old/venv/bin/pillarbox", "'/my programs/python3' -m pillarbox", "/new/bin/pillarbox"):
        change = wiring.install(CLAUDE, f"{program} hook --agent claude --spool-dir /s", path)
        put(path, change.after or "")
    assert {line for lines in commands(path).values() for line in lines if "pillarbox" in line} == {
        "/new/bin/pillarbox hook --agent claude --spool-dir /s"
    }


def test_entries_that_were_moved_into_a_group_of_the_users_are_taken_out_alone(tmp_path: Path) -> None:
    ours = json.dumps(CLAUDE.handler(COMMAND.format("claude")))
    text = '{"hooks": {"Stop": [{"matcher": "", "hooks": [%s{"type": "command", "command": "mine"}]}]}}'
    (change,) = wiring.uninstall(CLAUDE, put(tmp_path / "s.json", text % f"{ours}, "))
    assert change.after == text % ""


def test_a_handler_for_another_agent_is_not_ours(tmp_path: Path) -> None:
    path = put(tmp_path / "s.json", '{"hooks": {"Stop": [{"hooks": [{"command": "pillarbox hook --agent codex"}]}]}}')
    (change,) = wiring.uninstall(CLAUDE, path)
    assert not change.is_needed


def test_settings_that_changed_while_a_person_thought_are_not_overwritten(tmp_path: Path) -> None:
    path = put(tmp_path / "s.json", "{}")
    change = wiring.install(CLAUDE, COMMAND.format("claude"), path)
    put(path, '{"model": "opus"}')
    with pytest.raises(Refused, match="changed meanwhile"):
        replace(path, change.before, change.after)
    assert path.read_text() == '{"model": "opus"}'
    with pytest.raises(Refused, match="changed meanwhile"):
        replace(path, None, change.after)


def test_tables_that_codex_adds_between_ours_stay_after_uninstall(tmp_path: Path) -> None:
    path = put(tmp_path / "config.toml", CODEX_SETTINGS)
    added = '[projects."/new"]\ntrust_level = "trusted"\n'
    text = toml_text.add(CODEX_SETTINGS, CODEX, COMMAND.format("codex"))
    put(path, text.replace("[[hooks.PreToolUse]]", f"{added}[[hooks.PreToolUse]]"))
    (change,) = wiring.uninstall(CODEX, path)
    assert change.after == CODEX_SETTINGS + added


def test_text_that_only_looks_like_ours_is_not_cut(tmp_path: Path) -> None:
    ours = toml_text.add(None, CODEX, COMMAND.format("codex"))
    path = put(tmp_path / "config.toml", f"note = '''\n{ours}'''\n{ours}")
    with pytest.raises(InvalidInput, match="edit it by hand"):
        wiring.uninstall(CODEX, path)


KEYS = st.sampled_from(["hooks", "Stop", "SessionStart", "model", "ключ", "a b"]) | st.text()
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
GROUPS = st.lists(VALUES | st.fixed_dictionaries({"hooks": st.lists(VALUES, max_size=2)}), max_size=3)
HOOKS = st.dictionaries(st.sampled_from([*CLAUDE.events, "SessionEnd"]), GROUPS)
SETTINGS = st.builds(
    lambda before, hooks, after: before | hooks | after,
    st.dictionaries(st.text().filter(lambda key: key != "hooks"), VALUES, max_size=3),
    st.just({}) | st.fixed_dictionaries({"hooks": HOOKS}),
    st.dictionaries(st.text().filter(lambda key: key != "hooks"), VALUES, max_size=3),
)
DUMPS = st.sampled_from(
    [
        {"indent": 2},
        {"indent": "\t"},
        {"indent": 0},
        {"indent": 3, "separators": (" ,", " : ")},
        {},
        {"separators": (",", ":")},
        {"ensure_ascii": False, "indent": 4},
    ]
)
BLANKS = st.text(" \t\r\n", max_size=3)


@given(value=SETTINGS, layout=DUMPS, before=BLANKS, after=BLANKS, empty=st.sampled_from(["[]", "[ ]", "[\n]"]))
@example(value={"hooks": {"Stop": []}}, layout={}, before="", after="", empty="[ ]")
def test_any_settings_are_the_same_bytes_after_install_and_uninstall(
    value: dict[str, Any], layout: dict[str, Any], before: str, after: str, empty: str
) -> None:
    text = before + json.dumps(value, **layout) + after
    text = text.replace('"Stop": []', f'"Stop": {empty}')
    path = Path("s.json")
    command = COMMAND.format("claude")
    installed = json_text.add(text, CLAUDE, command)
    parsed = json_text.parse(installed, CLAUDE, path)
    hooks = parsed.pop("hooks")
    assert parsed == {key: item for key, item in value.items() if key != "hooks"}
    for event, groups in hooks.items():
        ours = [{"hooks": [CLAUDE.handler(command)]}] if event in CLAUDE.events else []
        assert groups == value.get("hooks", {}).get(event, []) + ours
    assert json_text.remove(installed, CLAUDE) == text


LINES = st.sampled_from(
    [
        "# a comment",
        "",
        "[tui]",
        "[[hooks.Stop]]",
        "[[hooks.Stop.hooks]]\ntype = 'command'",
        "[hooks.state]",
        'text = """\n[[hooks.Stop]]\n"""',
        "a.b = 1",
        "'é' = [1,\n  2]",
    ]
)


@given(lines=st.lists(LINES, max_size=8), newline=st.sampled_from(["\n", "\r\n"]), end=st.booleans())
def test_any_toml_is_the_same_bytes_after_install_and_uninstall(lines: list[str], newline: str, end: bool) -> None:
    text = newline.join(line.replace("\n", newline) for line in lines) + (newline if end else "")
    path = Path("config.toml")
    try:
        toml_text.parse(text, CODEX, path)
    except InvalidInput:
        return
    installed = toml_text.add(text, CODEX, COMMAND.format("codex"))
    hooks = toml_text.parse(installed, CODEX, path)["hooks"]
    assert all(hooks[event][-1] == {"hooks": [CODEX.handler(COMMAND.format("codex"))]} for event in CODEX.events)
    assert toml_text.remove(installed, CODEX) == text
