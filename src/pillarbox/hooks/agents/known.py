"""The agents we know: where their settings are, which events they tell and how they count a timeout."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from pillarbox.errors import InvalidInput
from pillarbox.hooks.vocabulary import CLAUDE, GEMINI

# The receiver waits a second for the database and a little for the spool; far below what any agent allows by itself.
_TIMEOUT_SECONDS = 5
_OURS = "pillarbox"

Handler = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent that runs a command for each of its events."""

    name: str
    title: str
    events: tuple[str, ...]
    home_variable: str
    folder: str
    files: tuple[str, ...]
    timeout: int = _TIMEOUT_SECONDS
    names_handlers: bool = False

    def settings_files(self, environment: Mapping[str, str] = os.environ) -> list[Path]:
        """The user's own settings, the file to prefer first."""
        home = environment.get(self.home_variable)
        folder = Path(home) if home else Path.home() / self.folder
        if home and self.name == "gemini":
            folder /= self.folder
        return [folder / file for file in self.files]

    def handler(self, command: str) -> Handler:
        """What the agent is to run, in its own words."""
        named = {"name": _OURS} if self.names_handlers else {}
        return {**named, "type": "command", "command": command, "timeout": self.timeout}

    def is_ours(self, handler: object) -> bool:
        """Whether a handler runs our receiver for this agent, wherever Pillarbox was installed then."""
        if not isinstance(handler, dict) or not isinstance(command := handler.get("command"), str):
            return False
        try:
            words = shlex.split(command)
        except ValueError:
            return False
        if words[1:2] == ["-P"]:
            del words[1]
        if words[1:3] == ["-m", _OURS]:
            words = words[2:]
        return words[1:4] == ["hook", "--agent", self.name] and PurePath(words[0]).name == _OURS


AGENTS = {
    agent.name: agent
    for agent in (
        Agent("claude", "Claude Code", tuple(CLAUDE), "CLAUDE_CONFIG_DIR", ".claude", ("settings.json",)),
        Agent(
            "codex",
            "Codex",
            ("SessionStart", "UserPromptSubmit", "PreToolUse", "PermissionRequest", "PostToolUse", "Stop"),
            "CODEX_HOME",
            ".codex",
            ("hooks.json", "config.toml"),
        ),
        Agent(
            "gemini",
            "Gemini CLI",
            tuple(GEMINI),
            "GEMINI_CLI_HOME",
            ".gemini",
            ("settings.json",),
            timeout=_TIMEOUT_SECONDS * 1000,
            names_handlers=True,
        ),
    )
}


def command_line(program: Sequence[str], agent: Agent, *, database: str | None, spool_dir: Path) -> str:
    """The receiver's command line, quoted for the shell."""
    named = ["--database", database] if database else []
    line = shlex.join([*program, "hook", "--agent", agent.name, *named, "--spool-dir", str(spool_dir)])
    try:
        line.encode()
    except UnicodeEncodeError:
        raise InvalidInput(
            "database", "lies in a folder whose name is not UTF-8, which no settings can hold."
        ) from None
    return line
