"""Editing JSON as text, so that whatever others wrote stays as they wrote it.

A container that we make has a blank after its bracket; into an empty one of the user's we write right after the bracket. So
whoever removes us again can tell which containers were there before.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pillarbox.hooks.agents.known import Agent, Handler
from pillarbox.hooks.agents.shape import check_shape, refuse

_BLANKS = " \t\r\n"
_CLOSING = {"{": "}", "[": "]"}
_UNIT = "  "


def parse(text: str, agent: Agent, path: Path) -> dict[str, Any]:
    """The settings that a text holds, if it is JSON that can be edited."""
    try:
        settings = check_shape(_DECODER.decode(text), agent, path)
        root = _root(text)
        for container in (root, *(_look(text, item.value) for item in root.items if item.key == "hooks")):
            if len({item.key for item in container.items}) < len(container.items):
                raise refuse(path, "names a key twice.")
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise refuse(path, f"is not valid JSON ({where}: {error.msg}); comments are not taken either.") from None
    except (ValueError, RecursionError):
        raise refuse(path, "is not valid JSON.") from None
    return settings


def add(text: str | None, agent: Agent, command: str) -> str:
    """The text with a handler for each of the agent's events, behind those of others."""
    handler = agent.handler(command)
    text = _created(agent.events[0], handler) if text is None else _with_handler(text, agent.events[0], handler)
    for event in agent.events[1:]:
        text = _with_handler(text, event, handler)
    return text


def remove(text: str, agent: Agent) -> str | None:
    """The text without our handlers; None when nothing but what we made is left."""
    rest: str | None = text
    while rest is not None and (found := _find(rest, agent)):
        rest = _cut_upwards(rest, found)
    return rest


@dataclass(frozen=True, slots=True)
class _Item:
    """A member of an object or an element of a list: where it and its value start, and where both end."""

    key: str | None
    start: int
    value: int
    end: int


@dataclass(frozen=True, slots=True)
class _Container:
    """An object or a list: where its bracket is, and what it holds."""

    at: int
    items: tuple[_Item, ...]

    def item(self, key: str) -> _Item | None:
        return next((item for item in self.items if item.key == key), None)


@dataclass(frozen=True, slots=True)
class _Style:
    """How a new item is laid out: `line` is the newline and indentation before it, empty for text on one line."""

    line: str
    unit: str

    @property
    def inner(self) -> _Style:
        return _Style(self.line + self.unit, self.unit) if self.line else self

    def wrapped(self, brackets: str, part: str) -> str:
        """A new container; the blank after its bracket says that it is ours."""
        return f"{brackets[0]}{self.inner.line or ' '}{part}{self.line or ' '}{brackets[1]}"

    def value(self, value: object) -> str:
        if not self.line:
            return json.dumps(value, ensure_ascii=False)
        return json.dumps(value, ensure_ascii=False, indent=self.unit).replace("\n", self.line)

    def event(self, event: str, group: object) -> str:
        return f'"{event}": {self.wrapped("[]", self.inner.value(group))}'

    def hooks(self, event: str, group: object) -> str:
        return f'"hooks": {self.wrapped("{}", self.inner.event(event, group))}'


def _created(event: str, handler: Handler) -> str:
    style = _Style("\n", _UNIT)
    return style.wrapped("{}", style.inner.hooks(event, {"hooks": [handler]})) + "\n"


def _with_handler(text: str, event: str, handler: Handler) -> str:
    group = {"hooks": [handler]}
    root = _root(text)
    style = _style(text, root, _Style(_newline(text), _unit(text, root)))
    if (hooks := root.item("hooks")) is None:
        return _put(text, root, style.hooks(event, group), style)
    events = _look(text, hooks.value)
    style = _style(text, events, style)
    if (groups := events.item(event)) is None:
        return _put(text, events, style.event(event, group), style)
    container = _look(text, groups.value)
    style = _style(text, container, style)
    return _put(text, container, style.value(group), style)


def _put(text: str, container: _Container, item: str, style: _Style) -> str:
    if not container.items:
        return text[: container.at + 1] + item + text[container.at + 1 :]
    end = container.items[-1].end
    return f"{text[:end]},{style.line or ' '}{item}{text[end:]}"


def _find(text: str, agent: Agent) -> list[tuple[_Container, _Item]] | None:
    """The steps from the root to the first handler of ours, or to its group if it is alone there."""
    root = _root(text)
    for hooks in root.items:
        for events, event in _inside(text, hooks, "{") if hooks.key == "hooks" else ():
            for groups, group in _inside(text, event, "["):
                for handlers, handler in _handlers(text, group):
                    if agent.is_ours(_DECODER.raw_decode(text, handler.value)[0]):
                        path = [(root, hooks), (events, event), (groups, group)]
                        return path if len(handlers.items) == 1 else [*path, (handlers, handler)]
    return None


def _handlers(text: str, group: _Item) -> list[tuple[_Container, _Item]]:
    return [
        found
        for _, member in _inside(text, group, "{")
        if member.key == "hooks"
        for found in _inside(text, member, "[")
    ]


def _inside(text: str, item: _Item, bracket: str) -> list[tuple[_Container, _Item]]:
    if text[item.value] != bracket:
        return []
    container = _look(text, item.value)
    return [(container, each) for each in container.items]


def _cut_upwards(text: str, path: list[tuple[_Container, _Item]]) -> str | None:
    """Cut an item, and with it each container of ours that would be left empty."""
    for container, item in reversed(path):
        if len(container.items) > 1 or item.start == container.at + 1:
            return _cut(text, container, item)
    return None


def _cut(text: str, container: _Container, item: _Item) -> str:
    place = container.items.index(item)
    if place:
        return text[: container.items[place - 1].end] + text[item.end :]
    following = container.items[1].start if len(container.items) > 1 else item.end
    return text[: item.start] + text[following:]


def _style(text: str, container: _Container, outer: _Style) -> _Style:
    """The style of what a container holds; in an empty one we go on in the line it stands in."""
    if not container.items:
        return outer
    blanks = text[container.at + 1 : container.items[0].start]
    return _Style(_newline(text) + blanks.rpartition("\n")[2] if "\n" in blanks else "", outer.unit)


def _unit(text: str, root: _Container) -> str:
    blanks = text[root.at + 1 : root.items[0].start] if root.items else ""
    return blanks.rpartition("\n")[2] or _UNIT


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _root(text: str) -> _Container:
    return _look(text, _after_blanks(text, 0))


def _look(text: str, at: int) -> _Container:
    """The items of the object or list that begins there; the text is known to be valid."""
    closing = _CLOSING[text[at]]
    items = []
    place = _after_blanks(text, at + 1)
    while text[place] != closing:
        start, key = place, None
        if closing == "}":
            key, place = _DECODER.raw_decode(text, place)
            place = _after_blanks(text, _after_blanks(text, place) + 1)
        _, end = _DECODER.raw_decode(text, place)
        items.append(_Item(key, start, place, end))
        place = _after_blanks(text, end)
        if text[place] == ",":
            place = _after_blanks(text, place + 1)
    return _Container(at, tuple(items))


def _after_blanks(text: str, place: int) -> int:
    while text[place] in _BLANKS:
        place += 1
    return place


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)
