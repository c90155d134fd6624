"""Editing TOML as text: our tables are appended, and cut out again as they were written."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from pillarbox.hooks.agents.known import Agent
from pillarbox.hooks.agents.shape import check_shape, refuse

_HEADER = "# Pillarbox's hooks: `pillarbox hook uninstall {agent}` takes them out again."
# Other programs may put tables of their own between ours, so each of ours is looked for by itself.
_TABLES = re.compile(
    r'^\[\[hooks\.(?P<event>\w+)\]\]\r?\n\[\[hooks\.(?P=event)\.hooks\]\]\r?\ntype = "command"\r?\n'
    r'command = (?P<command>"(?:[^"\\\r\n]|\\.)*")\r?\ntimeout = \d+(?:\r?\n|\Z)',
    re.MULTILINE,
)


def parse(text: str, agent: Agent, path: Path) -> dict[str, Any]:
    """The settings that a text holds, if it is TOML."""
    try:
        return check_shape(tomllib.loads(text), agent, path)
    except (ValueError, RecursionError) as error:
        raise refuse(path, f"is not valid TOML ({error}).") from None


def add(text: str | None, agent: Agent, command: str) -> str:
    """The text with a handler for each of the agent's events at its end."""
    newline = "\r\n" if text and "\r\n" in text else "\n"
    lines = [_HEADER.format(agent=agent.name)]
    for event in agent.events:
        lines += [f"[[hooks.{event}]]", f"[[hooks.{event}.hooks]]"]
        lines += [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in agent.handler(command).items()]
    block = newline.join(lines)
    if text is None:
        return block + newline
    if text and not text.endswith("\n"):
        # What had no newline at its end has none again when the block is cut out.
        return text + newline + newline + block
    return text + newline + block + newline


def remove(text: str, agent: Agent) -> str | None:
    """The text without our handlers; None when nothing but what we made is left."""
    header = _HEADER.format(agent=agent.name)

    def cut(tables: re.Match[str]) -> str:
        command = tomllib.loads(f"command = {tables['command']}")
        return "" if agent.is_ours(command) else tables[0]

    rest = _TABLES.sub(cut, text)
    rest = re.sub(rf"(?:^\r?\n)?^{re.escape(header)}(?:\r?\n|\Z)", "", rest, flags=re.MULTILINE)
    if not text.endswith("\n"):
        rest = re.sub(r"\r?\n\Z", "", rest)
    return None if not rest and text.startswith(header) else rest
