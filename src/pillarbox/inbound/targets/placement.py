"""Reading a session's target: who can deliver to it, and what it shares with other sessions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from pillarbox.errors import InvalidInput

ANY_NODE = "any"


class HttpTarget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A URL that takes each message as a POST; with a secret the request is signed by Standard Webhooks."""

    kind: Literal["http"] = "http"
    url: str
    secret: str | None = None
    headers: dict[str, str] = {}


class CommandTarget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program that takes each message on its standard input and exits with 0."""

    kind: Literal["command"] = "command"
    argv: tuple[str, ...]
    stdin: Literal["json", "content"] = "json"
    cwd: str | None = None


class PythonTarget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A callable that a process has registered under this name; only such processes deliver to it."""

    kind: Literal["python"] = "python"
    name: str


TargetSpec = HttpTarget | CommandTarget | PythonTarget
KINDS: dict[str, type[TargetSpec]] = {"http": HttpTarget, "command": CommandTarget, "python": PythonTarget}


@dataclass(frozen=True, slots=True)
class Placement:
    """The destination whose slots a session shares, and which processes may deliver to it."""

    destination: str
    served_by: str


def read_target(target: dict[str, Any]) -> TargetSpec:
    """A target as given, checked; a fault names its field below `target`."""
    kind = target.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidInput("target.kind", f"must be one of {', '.join(KINDS)}.")
    try:
        spec = msgspec.convert(target, KINDS[kind])
    except msgspec.ValidationError as error:
        raise InvalidInput(*_fault(error)) from error
    _check(spec)
    return spec


def place(target: dict[str, Any], node: str | None) -> Placement:
    """Where a session with this target is delivered."""
    spec = read_target(target)
    served_by = ANY_NODE if node is None else f"node:{node}"
    match spec:
        case HttpTarget():
            parts = urlsplit(spec.url)
            return Placement(f"{parts.scheme}://{parts.netloc.lower()}", served_by)
        case CommandTarget():
            return Placement(f"command:{spec.argv[0]}", served_by)
        case PythonTarget():
            return Placement(f"python:{spec.name}", f"python:{spec.name}")


def _check(spec: TargetSpec) -> None:
    """What the types alone do not say."""


def _fault(error: msgspec.ValidationError) -> tuple[str, str]:
    text, _, path = str(error).partition(" - at `$")
    return "target" + path.rstrip("`").replace("[", ".").replace("]", ""), text + "."
