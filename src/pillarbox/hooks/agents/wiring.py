"""What to change in an agent's settings, worked out and checked before anything is written."""

from __future__ import annotations

import difflib
import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pillarbox.errors import InvalidInput
from pillarbox.hooks.agents import json_text, toml_text
from pillarbox.hooks.agents.files import read
from pillarbox.hooks.agents.known import Agent
from pillarbox.hooks.agents.shape import is_wired, ours_in, refuse, without_ours


@dataclass(frozen=True, slots=True)
class Change:
    """What a file holds and what it is to hold; None is no file."""

    path: Path
    before: str | None
    after: str | None

    @property
    def is_needed(self) -> bool:
        return self.before != self.after

    def diff(self) -> list[str]:
        """The change as a unified diff, line by line."""
        before, after = (text.splitlines() if text else [] for text in (self.before, self.after))
        old, new = ("/dev/null" if text is None else str(self.path) for text in (self.before, self.after))
        return list(difflib.unified_diff(before, after, old, new, lineterm=""))


def install(agent: Agent, command: str, path: Path | None = None) -> Change:
    """How to have the agent run this command for each of its events."""
    path = path or _preferred(agent)
    edit = _editor(agent, path)
    before = read(path)
    settings = {} if before is None else edit.parse(before, agent, path)
    if is_wired(settings, agent, command):
        return Change(path, before, before)
    rest = before
    if before is not None and ours_in(settings, agent):
        rest = edit.remove(before, agent)
    after = edit.add(rest, agent, command)
    _check(agent, path, settings, after, command)
    return Change(path, before, after)


def uninstall(agent: Agent, path: Path | None = None) -> list[Change]:
    """How to take our handlers out of each of the agent's settings."""
    return [_removal(agent, each) for each in ([path] if path else agent.settings_files())]


def cautions(agent: Agent, path: Path) -> list[str]:
    """What keeps the agent from running hooks at all, or what it asks for first."""
    said = []
    if agent.name == "codex":
        said.append("Codex runs no new hook before you have looked at it: open /hooks in Codex once and trust them.")
    for file in {path, path.with_name("config.toml")} if agent.name == "codex" else {path}:
        if _are_hooks_off(_loosely(file)):
            said.append(f"{file} turns all hooks off; turn them on for this to have an effect.")
    return said


def _removal(agent: Agent, path: Path) -> Change:
    edit = _editor(agent, path)
    before = read(path)
    settings = {} if before is None else edit.parse(before, agent, path)
    if before is None or not ours_in(settings, agent):
        return Change(path, before, before)
    after = edit.remove(before, agent)
    _check(agent, path, settings, after, None)
    return Change(path, before, after)


def _check(agent: Agent, path: Path, before: dict[str, Any], after: str | None, command: str | None) -> None:
    """Whether a text holds what it should: ours as wanted, and all that others wrote."""
    unsafe = refuse(path, "is written in a way that cannot be edited safely; edit it by hand.")
    try:
        settings = {} if after is None else _editor(agent, path).parse(after, agent, path)
    except InvalidInput:
        raise unsafe from None
    wired = is_wired(settings, agent, command) if command else not ours_in(settings, agent)
    if not wired or without_ours(settings, agent) != without_ours(before, agent):
        raise unsafe


def _editor(agent: Agent, path: Path) -> Any:
    if path.suffix != ".toml":
        return json_text
    if not any(file.endswith(".toml") for file in agent.files):
        raise InvalidInput("settings", f"{agent.title} has its settings in JSON, not in TOML.")
    return toml_text


def _preferred(agent: Agent) -> Path:
    """Where we are already, else where the user has hooks, else the first: Codex warns of hooks in both of its files."""
    files = agent.settings_files()
    for is_chosen in (lambda settings: ours_in(settings, agent), _has_hooks):
        if chosen := next((file for file in files if is_chosen(_loosely(file))), None):
            return chosen
    return files[0]


def _has_hooks(settings: dict[str, Any]) -> bool:
    hooks = settings.get("hooks")
    return isinstance(hooks, dict) and any(isinstance(groups, list) for groups in hooks.values())


def _are_hooks_off(settings: dict[str, Any]) -> bool:
    features, config = settings.get("features"), settings.get("hooksConfig")
    off = [isinstance(features, dict) and features.get(name) is False for name in ("hooks", "codex_hooks")]
    return (
        settings.get("disableAllHooks") is True
        or any(off)
        or (isinstance(config, dict) and config.get("enabled") is False)
    )


def _loosely(path: Path) -> dict[str, Any]:
    """The settings in a file, or none if they cannot be read."""
    try:
        text = read(path) or "{}"
        settings = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (InvalidInput, ValueError, RecursionError):
        return {}
    return settings if isinstance(settings, dict) else {}
