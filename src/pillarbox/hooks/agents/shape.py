"""What agents' settings have in common once they are parsed: `hooks`, an event, groups, and the handlers of each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pillarbox.errors import InvalidInput
from pillarbox.hooks.agents.known import Agent, Handler


def refuse(path: Path, why: str) -> InvalidInput:
    """The refusal of settings that cannot be edited safely."""
    return InvalidInput("settings", f"{path} {why} Nothing was changed.")


def check_shape(settings: object, agent: Agent, path: Path) -> dict[str, Any]:
    """The settings, if they are built as the agent documents them."""
    if not isinstance(settings, dict):
        raise refuse(path, "holds something else than an object.")
    hooks = settings.get("hooks", {})
    if not isinstance(hooks, dict):
        raise refuse(path, "has `hooks` that are not an object.")
    for event in agent.events:
        if not isinstance(hooks.get(event, []), list):
            raise refuse(path, f"has `hooks.{event}` that is not a list.")
    return settings


def ours_in(settings: dict[str, Any], agent: Agent) -> list[tuple[str, Handler]]:
    """Each handler of ours and its event."""
    return [(event, handler) for event, handler in _handlers(settings) if agent.is_ours(handler)]


def is_wired(settings: dict[str, Any], agent: Agent, command: str) -> bool:
    """Whether each event has our handler as it should be, once."""
    wanted = [(event, agent.handler(command)) for event in agent.events]
    found = ours_in(settings, agent)
    return len(found) == len(wanted) and all(each in found for each in wanted)


def without_ours(settings: dict[str, Any], agent: Agent) -> dict[str, Any]:
    """What others wrote; whatever is empty without us is left out, so that before and after can be compared."""
    hooks = settings.get("hooks")
    if not isinstance(hooks, dict):
        return settings
    kept = {event: _foreign(groups, agent) for event, groups in hooks.items()}
    kept = {event: groups for event, groups in kept.items() if groups != []}
    return {**settings, "hooks": kept} if kept else {name: item for name, item in settings.items() if name != "hooks"}


def _foreign(groups: Any, agent: Agent) -> Any:
    if not isinstance(groups, list):
        return groups
    kept = []
    for group in groups:
        handlers = group.get("hooks") if isinstance(group, dict) else None
        if not isinstance(handlers, list):
            kept.append(group)
        elif foreign := [handler for handler in handlers if not agent.is_ours(handler)]:
            kept.append({**group, "hooks": foreign})
        elif not handlers:
            kept.append(group)
    return kept


def _handlers(settings: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    hooks = settings.get("hooks")
    for event, groups in hooks.items() if isinstance(hooks, dict) else ():
        for group in groups if isinstance(groups, list) else ():
            handlers = group.get("hooks") if isinstance(group, dict) else None
            for handler in handlers if isinstance(handlers, list) else ():
                yield event, handler
