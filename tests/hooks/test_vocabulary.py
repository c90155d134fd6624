"""What becomes of the events that agents document, and of anything else that is JSON."""

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pillarbox.hooks.vocabulary import AGENTS, EVENT_TYPES, normalise
from pillarbox.text import check_json

Event = dict[str, Any]

CLAUDE: Event = {
    "session_id": "abc123",
    "transcript_path": "/home/ada/.claude/projects/x/00893aaf.jsonl",
    "cwd": "/home/ada/x",
    "permission_mode": "default",
}
ABOUT_CLAUDE = {
    "agent": "claude",
    "native_session_id": "abc123",
    "transcript_path": "/home/ada/.claude/projects/x/00893aaf.jsonl",
    "cwd": "/home/ada/x",
    "permission_mode": "default",
}
CODEX: Event = {
    "session_id": "0199-aa",
    "turn_id": "7",
    "transcript_path": None,
    "cwd": "/srv",
    "model": "gpt-5-codex",
    "permission_mode": "plan",
}
ABOUT_CODEX = {
    "agent": "codex",
    "native_session_id": "0199-aa",
    "turn_id": "7",
    "cwd": "/srv",
    "model": "gpt-5-codex",
    "permission_mode": "plan",
}
GEMINI: Event = {
    "session_id": "g-1",
    "transcript_path": "/home/ada/.gemini/tmp/x/chats/session.json",
    "cwd": "/srv",
    "timestamp": "2026-01-01T12:00:00.000Z",
}
ABOUT_GEMINI = {
    "agent": "gemini",
    "native_session_id": "g-1",
    "transcript_path": "/home/ada/.gemini/tmp/x/chats/session.json",
    "cwd": "/srv",
}
BASH: Event = {"tool_name": "Bash", "tool_use_id": "toolu_1", "tool_input": {"command": "echo $SECRET"}}
TOOL = {"tool_name": "Bash", "tool_use_id": "toolu_1"}


@pytest.mark.parametrize(
    ("name", "fields", "event_type", "data"),
    [
        ("SessionStart", {"source": "startup", "model": "m"}, "session_start", {"source": "startup", "model": "m"}),
        ("UserPromptSubmit", {"prompt": "Fix it."}, "user_prompt_submit", {"prompt": "Fix it."}),
        ("PreToolUse", BASH, "tool_use", TOOL),
        ("PostToolUse", BASH | {"tool_response": {"stdout": "x"}}, "tool_done", TOOL),
        ("PostToolUseFailure", BASH | {"error": "exit 1", "is_interrupt": False}, "tool_done", TOOL | {"failed": True}),
        (
            "Notification",
            {
                "message": "Claude needs your permission",
                "title": "Permission",
                "notification_type": "permission_prompt",
            },
            "notification",
            {
                "message": "Claude needs your permission",
                "title": "Permission",
                "notification_type": "permission_prompt",
            },
        ),
        ("Stop", {"stop_hook_active": False, "last_assistant_message": "Done."}, "agent_stop", {"summary": "Done."}),
        (
            "StopFailure",
            {"error": "rate_limit", "error_details": "429", "last_assistant_message": "API Error: Rate limit reached"},
            "error",
            {"code": "rate_limit", "details": "429", "message": "API Error: Rate limit reached"},
        ),
    ],
)
def test_claude_code_events_are_kept_under_our_names(name: str, fields: Event, event_type: str, data: Event) -> None:
    assert normalise("claude", CLAUDE | {"hook_event_name": name} | fields) == (
        event_type,
        ABOUT_CLAUDE | data,
        "abc123",
    )


@pytest.mark.parametrize(
    ("name", "fields", "event_type", "data"),
    [
        ("SessionStart", {"source": "resume"}, "session_start", {"source": "resume"}),
        ("UserPromptSubmit", {"prompt": "Fix it."}, "user_prompt_submit", {"prompt": "Fix it."}),
        ("PreToolUse", BASH, "tool_use", TOOL),
        ("PostToolUse", BASH | {"tool_response": "x"}, "tool_done", TOOL),
        (
            "PermissionRequest",
            {"tool_name": "Bash", "tool_input": {"command": "rm", "description": "why"}},
            "notification",
            {
                "tool_name": "Bash",
                "message": "Permission is asked for Bash.",
                "notification_type": "permission_request",
            },
        ),
        ("Stop", {"stop_hook_active": False, "last_assistant_message": None}, "agent_stop", {}),
    ],
)
def test_codex_events_are_kept_under_our_names(name: str, fields: Event, event_type: str, data: Event) -> None:
    assert normalise("codex", CODEX | {"hook_event_name": name} | fields) == (event_type, ABOUT_CODEX | data, "0199-aa")


def test_what_codex_says_by_notify_is_an_agent_stop_with_the_last_prompt() -> None:
    event: Event = {
        "type": "agent-turn-complete",
        "thread-id": "b5f6c1c2",
        "turn-id": "12345",
        "cwd": "/srv",
        "client": "codex-tui",
        "input-messages": ["Rename foo.", "And bar."],
        "last-assistant-message": "Renamed.",
    }
    data = {"cwd": "/srv", "turn_id": "12345", "prompt": "And bar.", "summary": "Renamed."}
    assert normalise("codex", event) == (
        "agent_stop",
        {"agent": "codex", "native_session_id": "b5f6c1c2"} | data,
        "b5f6c1c2",
    )


@pytest.mark.parametrize(
    ("name", "fields", "event_type", "data"),
    [
        ("SessionStart", {"source": "startup"}, "session_start", {"source": "startup"}),
        ("BeforeAgent", {"prompt": "Fix it."}, "user_prompt_submit", {"prompt": "Fix it."}),
        ("BeforeTool", {"tool_name": "read_file", "tool_input": {}}, "tool_use", {"tool_name": "read_file"}),
        ("AfterTool", {"tool_name": "read_file", "tool_response": {}}, "tool_done", {"tool_name": "read_file"}),
        (
            "AfterAgent",
            {"prompt": "Fix it.", "prompt_response": "Done.", "stop_hook_active": False},
            "agent_stop",
            {"prompt": "Fix it.", "summary": "Done."},
        ),
        (
            "Notification",
            {"notification_type": "ToolPermission", "message": "Allow?", "details": {"command": "echo $SECRET"}},
            "notification",
            {"notification_type": "ToolPermission", "message": "Allow?"},
        ),
    ],
)
def test_gemini_events_are_kept_under_our_names(name: str, fields: Event, event_type: str, data: Event) -> None:
    assert normalise("gemini", GEMINI | {"hook_event_name": name} | fields) == (event_type, ABOUT_GEMINI | data, "g-1")


@pytest.mark.parametrize("agent", [None, "claude", "codex", "gemini"])
@pytest.mark.parametrize("name", ["SessionEnd", "SubagentStop", "PreCompact", "BeforeModel", "session_end", "", "stop"])
def test_other_events_are_dropped(agent: str | None, name: str) -> None:
    assert normalise(agent, {"hook_event_name": name, "session_id": "a"}) is None


def test_the_stop_of_a_helper_is_not_the_agents_stop() -> None:
    assert normalise("claude", CLAUDE | {"hook_event_name": "Stop", "agent_id": "helper-1"}) is None


def test_an_agents_names_are_not_anothers() -> None:
    assert normalise("claude", {"hook_event_name": "BeforeAgent", "session_id": "a"}) is None
    assert normalise("gemini", {"hook_event_name": "Stop", "session_id": "a"}) is None


@pytest.mark.parametrize(("agent", "name"), [(agent, name) for agent, names in AGENTS.items() for name in names])
def test_an_event_is_recognised_without_being_told_the_agent(agent: str, name: str) -> None:
    found = normalise(None, {"hook_event_name": name, "session_id": "a"})
    assert found is not None
    assert found[0] == AGENTS[agent][name]
    assert "agent" not in found[1]


@pytest.mark.parametrize("agent", [None, "claude", "codex", "gemini", "aider"])
@pytest.mark.parametrize("field", ["event_type", "hook_event_name"])
@pytest.mark.parametrize("event_type", EVENT_TYPES)
def test_our_own_names_are_taken_from_any_agent(agent: str | None, field: str, event_type: str) -> None:
    found = normalise(agent, {field: event_type, "native_session_id": "a", "payload": {"cwd": "/x"}})
    assert found is not None
    assert (found[0], found[1]["cwd"], found[2]) == (event_type, "/x", "a")


def test_an_error_of_a_program_keeps_its_code_and_plain_details() -> None:
    found = normalise(
        None, {"event_type": "error", "message": "m", "code": 7, "details": {"line": 3, "why": "x", "deep": {"a": 1}}}
    )
    assert found == ("error", {"message": "m", "code": 7, "details": {"line": 3, "why": "x"}}, None)


def test_tool_inputs_and_outputs_are_never_kept() -> None:
    for agent, names in AGENTS.items():
        for name in names:
            found = normalise(
                agent,
                {"hook_event_name": name, "tool_name": "t", "tool_input": "SECRET", "tool_response": {"a": "SECRET"}},
            )
            assert found is not None
            assert "SECRET" not in json.dumps(found[1])


def test_long_texts_are_cut_with_a_marker() -> None:
    _, payload, _ = normalise(
        None, {"event_type": "user_prompt_submit", "prompt": "x" * 70_000, "cwd": "y" * 5_000}
    ) or (
        "",
        {},
        None,
    )
    assert payload["prompt"] == "x" * 65_535 + "…"
    assert payload["cwd"] == "y" * 4_095 + "…"


def test_text_that_no_database_can_store_is_mended() -> None:
    found = normalise(None, {"event_type": "user_prompt_submit", "prompt": "a\0b\ud800c"})
    assert found == ("user_prompt_submit", {"prompt": "ab\ufffdc"}, None)


@pytest.mark.parametrize("native", ["", " ", "a\nb", "a\x85b", "a\u2028b", "\ud800", "x" * 256, 7, None, ["a"]])
def test_a_session_id_that_is_no_name_counts_as_absent(native: object) -> None:
    found = normalise("claude", {"hook_event_name": "Stop", "session_id": native})
    assert found == ("agent_stop", {"agent": "claude"}, None)


NAMES = sorted({*EVENT_TYPES, *(name for names in AGENTS.values() for name in names), "SessionEnd"})
FIELDS = [
    "session_id",
    "thread-id",
    "native_session_id",
    "prompt",
    "message",
    "title",
    "details",
    "code",
    "error",
    "error_details",
    "tool_name",
    "tool_use_id",
    "input-messages",
    "last_assistant_message",
    "last-assistant-message",
    "prompt_response",
    "summary",
    "agent_id",
    "payload",
    "cwd",
    "source",
    "failed",
]
TEXTS = st.text(st.characters(exclude_categories=())) | st.sampled_from(["\0", "\ud800", "x" * 70_000])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)
NAMED = st.fixed_dictionaries(
    {}, optional={"hook_event_name": st.sampled_from(NAMES), "event_type": st.sampled_from(NAMES) | JSON, "type": JSON}
)
EVENTS = st.tuples(NAMED, st.dictionaries(st.sampled_from(FIELDS), JSON), st.dictionaries(TEXTS, JSON, max_size=3))


@given(agent=st.none() | st.sampled_from(["claude", "codex", "gemini"]) | TEXTS, parts=EVENTS)
def test_any_object_is_dropped_or_becomes_something_every_database_can_store(agent: str | None, parts: Any) -> None:
    named, fields, others = parts
    found = normalise(agent, others | fields | named)
    if found is None:
        return
    event_type, payload, native = found
    assert event_type in EVENT_TYPES
    check_json("payload", payload)
    assert payload.get("native_session_id") == native
    assert native is None or (0 < len(native) <= 255 and native.encode())
    assert len(json.dumps(payload, allow_nan=False)) < 6 * 3 * 65_536 + 6 * 45 * 4_096


def test_the_vocabulary_imports_nothing() -> None:
    code = "import sys; before = set(sys.modules); import pillarbox.hooks.vocabulary; print(*set(sys.modules) - before)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in loaded if not name.startswith("pillarbox")] == []
