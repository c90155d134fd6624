"""What agents call their events and what we call them; imports nothing, for a receiver starts in milliseconds."""

# This file avoids even `__future__`: every import is time that an agent waits.

EVENT_TYPES = ("session_start", "user_prompt_submit", "tool_use", "tool_done", "agent_stop", "notification", "error")

CLAUDE = {
    "SessionStart": "session_start",
    "UserPromptSubmit": "user_prompt_submit",
    "PreToolUse": "tool_use",
    "PostToolUse": "tool_done",
    "PostToolUseFailure": "tool_done",
    "Stop": "agent_stop",
    "StopFailure": "error",
    "Notification": "notification",
}
CODEX = {
    "SessionStart": "session_start",
    "UserPromptSubmit": "user_prompt_submit",
    "PreToolUse": "tool_use",
    "PostToolUse": "tool_done",
    "Stop": "agent_stop",
    "StopFailure": "error",
    # Codex has no notification of its own; this is how it tells that it waits for a person.
    "PermissionRequest": "notification",
    # What its older `notify` setting says at the end of a turn.
    "agent-turn-complete": "agent_stop",
}
GEMINI = {
    "SessionStart": "session_start",
    "BeforeAgent": "user_prompt_submit",
    "BeforeTool": "tool_use",
    "AfterTool": "tool_done",
    "AfterAgent": "agent_stop",
    "Notification": "notification",
}
AGENTS = {"claude": CLAUDE, "codex": CODEX, "gemini": GEMINI}

_OURS = {name: name for name in EVENT_TYPES}
_ANY = {**GEMINI, **CODEX, **CLAUDE}

_LONG = 65_536
_SHORT = 4_096
_LONGEST_NAME = 255
_MOST_DETAILS = 32

# Each of our fields, and where agents put it, the first that holds text first.
_ABOUT_SESSION = {
    "cwd": ("cwd",),
    "transcript_path": ("transcript_path", "transcript-path"),
    "model": ("model",),
    "source": ("source",),
    "permission_mode": ("permission_mode",),
    "turn_id": ("turn_id", "turn-id"),
}
_TOOL: dict[str, tuple[str, ...]] = {"tool_name": ("tool_name",), "tool_use_id": ("tool_use_id",)}
_ABOUT_EVENT: dict[str, dict[str, tuple[str, ...]]] = {
    "session_start": {},
    "user_prompt_submit": {"prompt": ("prompt",)},
    "tool_use": _TOOL,
    "tool_done": _TOOL,
    "agent_stop": {
        "prompt": ("prompt",),
        "summary": ("summary", "last_assistant_message", "last-assistant-message", "prompt_response"),
    },
    "notification": {
        "message": ("message",),
        "title": ("title",),
        "notification_type": ("notification_type",),
        "tool_name": ("tool_name",),
    },
    "error": {"message": ("message",), "code": ("code",), "details": ("details",)},
}
_LONG_FIELDS = ("prompt", "summary", "message")


def normalise(agent: str | None, raw: dict[str, object]) -> tuple[str, dict[str, object], str | None] | None:
    """Our event type, the payload to store and the agent's own session id; None for an event that is not kept."""
    name = _name(raw)
    event_type = (_OURS.get(name) or AGENTS.get(agent or "", _ANY).get(name)) if name else None
    if event_type is None or _is_subagent(name, raw):
        return None
    if name == event_type and isinstance(nested := raw.get("payload"), dict):
        raw = {**raw, **nested}
    native = _native_id(raw)
    payload: dict[str, object] = {"native_session_id": native, "agent": _text(agent, _LONGEST_NAME)}
    payload |= _selected(raw, _ABOUT_SESSION) | _selected(raw, _ABOUT_EVENT[event_type])
    payload |= _peculiar(name, event_type, raw, payload)
    return event_type, {field: value for field, value in payload.items() if value is not None}, native


def _name(raw: dict[str, object]) -> str | None:
    for field in ("event_type", "hook_event_name", "type"):
        if isinstance(value := raw.get(field), str) and value:
            return value
    return None


def _is_subagent(name: str | None, raw: dict[str, object]) -> bool:
    """Whether a helper of the agent stopped, which does not end the agent's turn."""
    return name == "Stop" and bool(raw.get("agent_id"))


def _native_id(raw: dict[str, object]) -> str | None:
    for field in ("native_session_id", "session_id", "thread-id", "thread_id"):
        value = raw.get(field)
        if (
            isinstance(value, str)
            and value.strip()
            and len(value) <= _LONGEST_NAME
            and not any(map(_is_control, value))
        ):
            return value
    return None


def _selected(raw: dict[str, object], fields: dict[str, tuple[str, ...]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for field, places in fields.items():
        most = _LONG if field in _LONG_FIELDS else _SHORT
        found[field] = next((text for place in places if (text := _text(raw.get(place), most))), None)
    return found


def _peculiar(name: str | None, event_type: str, raw: dict[str, object], found: dict[str, object]) -> dict[str, object]:
    """What no agent says in a field of its own text."""
    if name == "PermissionRequest":
        message = f"Permission is asked for {found['tool_name'] or 'a tool'}."
        return {"message": found["message"] or message, "notification_type": "permission_request"}
    if event_type == "tool_done":
        failed = name == "PostToolUseFailure" or raw.get("failed") is True
        return {"failed": True} if failed else {}
    if event_type == "agent_stop" and found["prompt"] is None:
        return {"prompt": _last_text(raw.get("input-messages"))}
    if event_type == "error":
        return _error(raw, found)
    return {}


def _error(raw: dict[str, object], found: dict[str, object]) -> dict[str, object]:
    code = found["code"] or _whole(raw.get("code")) or _text(raw.get("error"), _SHORT)
    details = found["details"] or _flat(raw.get("details")) or _text(raw.get("error_details"), _SHORT)
    said = found["message"] or _text(raw.get("last_assistant_message"), _LONG) or details or code
    return {"message": said if isinstance(said, str) else None, "code": code, "details": details}


def _last_text(value: object) -> str | None:
    if not isinstance(value, list):
        return None
    return next((text for item in reversed(value) if (text := _text(item, _LONG))), None)


def _flat(value: object) -> dict[str, object] | None:
    """The plain values of an object: what is nested in it could be of any size."""
    if not isinstance(value, dict):
        return None
    kept: dict[str, object] = {}
    for key, item in list(value.items())[:_MOST_DETAILS]:
        plain = item if isinstance(item, bool) else _text(item, _SHORT) or _whole(item)
        if plain is not None and (name := _text(key, _LONGEST_NAME)):
            kept[name] = plain
    return kept or None


def _whole(value: object) -> int | None:
    """A whole number that every database can store."""
    if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63:
        return value
    return None


def _text(value: object, most: int) -> str | None:
    """Text that every database can store, cut to a length; None for anything else."""
    if not isinstance(value, str):
        return None
    value = value.replace("\0", "")
    if len(value) > most:
        value = value[: most - 1] + "…"
    try:
        value.encode()
    except UnicodeEncodeError:
        value = "".join("\ufffd" if "\ud800" <= letter <= "\udfff" else letter for letter in value)
    return value or None


def _is_control(letter: str) -> bool:
    return letter < " " or "\x7f" <= letter <= "\x9f" or letter in "\u2028\u2029" or "\ud800" <= letter <= "\udfff"
