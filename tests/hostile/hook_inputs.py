"""What a broken or hostile agent may give `pillarbox hook`: on stdin, as arguments, and in the variable of its session."""

import json
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.hostile.corpus.requests import BODIES_NOT_JSON, BODIES_OF_ANOTHER_SHAPE
from tests.hostile.corpus.texts import TEXTS
from tests.hostile.corpus.values import VALUES
from tests.hostile.inputs import HERE, places_in, spoilt_at

EVENTS: tuple[dict[str, Any], ...] = (
    {"hook_event_name": "PreToolUse", "session_id": "n1", "cwd": "/", "tool_name": "Bash", "tool_use_id": "t"},
    {"hook_event_name": "UserPromptSubmit", "session_id": "n1", "prompt": "Hello.", "permission_mode": "x"},
    {"hook_event_name": "Stop", "session_id": "n1", "last_assistant_message": "Done.", "agent_id": ""},
    {"hook_event_name": "StopFailure", "session_id": "n1", "error": "e", "error_details": "d"},
    {"type": "agent-turn-complete", "thread-id": "n2", "input-messages": ["a", "b"], "last-assistant-message": "Done."},
    {"hook_event_name": "AfterTool", "session_id": "n3", "failed": True, "tool_name": "x"},
    {"event_type": "error", "native_session_id": "n4", "payload": {"code": 7, "details": {"a": 1, "b": [2]}}},
    {"event_type": "notification", "session_id": "n4", "message": "m", "title": "t", "notification_type": "x"},
)

ARGUMENTS: tuple[tuple[str, ...], ...] = (
    ("--agent",),
    ("--agent", ""),
    ("--agent=claude", "--agent=codex"),
    ("--agent", "../../etc/passwd"),
    ("--agent", "x" * 5000),
    ("--agent", "\x1b[31m"),
    ("--agent", "\udcff"),
    ("--", "--agent"),
    ("-x", "--nothing", "--json"),
    ("{",),
    ("{}",),
    ('{"hook_event_name": "Stop"',),
    ('{"type": "agent-turn-complete", "thread-id": "\udcff"}',),
    ("{" * 100_000,),
    ("x" * 100_000,),
)


class HookInput(NamedTuple):
    """One run of the receiver."""

    stdin: bytes
    arguments: tuple[str, ...] = ()
    session: str = "s1"


def hook_inputs(number: int, seed: int) -> list[HookInput]:
    """So many of them, chosen by a seed."""
    return random.Random(seed).sample(list(dict.fromkeys(_all())), k=number)


def _all() -> Iterator[HookInput]:
    sound = json.dumps(EVENTS[0]).encode()
    for body in (*BODIES_NOT_JSON, *BODIES_OF_ANOTHER_SHAPE, b"", b"\n" * 100_000):
        yield HookInput(body)
    for arguments in ARGUMENTS:
        yield HookInput(sound, arguments)
    for text in TEXTS:
        if "\0" not in text:
            yield HookInput(sound, session=text.encode(errors="replace").decode())
            yield HookInput(sound, ("--agent", text.encode(errors="replace").decode()[:5000]))
    for agent, event in zip((*("claude",) * 4, "codex", "gemini", "", ""), EVENTS, strict=True):
        for place in places_in(event):
            spoilt = json.dumps(spoilt_at(event, place)).encode()
            for value in VALUES:
                yield HookInput(spoilt.replace(f'"{HERE}"'.encode(), value), ("--agent", agent) if agent else ())
