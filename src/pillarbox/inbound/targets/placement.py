"""Reading a session's target: who can deliver to it, and what it shares with other sessions."""

from __future__ import annotations

import re
import socket
from base64 import b64decode
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import IPv6Address
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from pillarbox.errors import InvalidInput
from pillarbox.telemetry.redact import HIDDEN
from pillarbox.text import check_name, check_text, printable

ANY_NODE = "any"
NOBODY = "nobody"
_LONGEST_DESTINATION = 300

_LONGEST_URL = 2000
_LONGEST_HOST = 253
_LONGEST_PATH = 4096
_LONGEST_PROGRAM = 500
_MOST_HEADERS = 64
_LONGEST_HEADER = 8 * 1024
_MOST_ARGUMENTS = 256
_LARGEST_ARGV = 64 * 1024
_LONGEST_SOCKET = 100

_NOT_IN_URL = re.compile(r"[^\x21-\x7e]|\\")
_HOST_NAME = re.compile(r"[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_HEADER_VALUE = re.compile(r"([\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?)?")
_CREDENTIAL = re.compile(r"(?i)auth|cookie|credential|key|password|secret|signature|token")
_SOCKET_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_REFERENCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:.+")
_NAMED_FIELD = re.compile(r"(missing required|unknown) field `(.+)`")

# Hop by hop, or what the request's own body and framing decide.
_OUR_HEADERS = frozenset(
    {
        "connection",
        "content-encoding",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


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


class TmuxTarget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program in a tmux session of one machine, into which each message is pasted and submitted."""

    kind: Literal["tmux"] = "tmux"
    name: str
    socket: str | None = None
    paste: Literal["auto", "bracketed", "single-line"] = "auto"
    envelope: bool = True
    busy: Literal["type", "queue", "interrupt"] = "type"
    output: Literal["transcript", "pane"] = "transcript"
    start: tuple[str, ...] = ()
    cwd: str | None = None


class NoTarget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nowhere yet: messages wait until the session is given a target. What an agent that started by itself begins with."""

    kind: Literal["none"] = "none"


TargetSpec = HttpTarget | CommandTarget | PythonTarget | TmuxTarget | NoTarget
KINDS: dict[str, type[TargetSpec]] = {
    "http": HttpTarget,
    "command": CommandTarget,
    "python": PythonTarget,
    "tmux": TmuxTarget,
    "none": NoTarget,
}


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


def place(target: dict[str, Any], node: str | None, *, here: str | None = None) -> Placement:
    """Where a session with this target is delivered; what lives on one machine, and nobody said which, lives `here`."""
    spec = read_target(target)
    served_by = ANY_NODE if node is None else f"node:{node}"
    match spec:
        case HttpTarget():
            parts = urlsplit(spec.url)
            default = ":443" if parts.scheme == "https" else ":80"
            return Placement(_short(f"{parts.scheme}://{parts.netloc.lower().removesuffix(default)}"), served_by)
        case CommandTarget():
            return Placement(_short(f"command:{spec.argv[0]}"), served_by)
        case PythonTarget():
            return Placement(f"python:{spec.name}", f"python:{spec.name}")
        case TmuxTarget():
            machine = node or here or socket.gethostname()
            return Placement(_short(f"tmux:{machine}:{spec.socket or 'default'}"), f"node:{machine}")
        case NoTarget():
            return Placement(spec.kind, NOBODY)


def _short(destination: str) -> str:
    """A destination is part of an index entry, which PostgreSQL bounds: a long one goes by its digest."""
    encoded = destination.encode()
    return destination if len(encoded) <= _LONGEST_DESTINATION else f"sha256:{sha256(encoded).hexdigest()}"


def public_target(target: dict[str, Any]) -> dict[str, Any]:
    """A stored target as it may be shown: references stay, secrets and credentials in headers do not."""
    shown = dict(target)
    if isinstance(secret := target.get("secret"), str) and not is_reference(secret):
        shown["secret"] = HIDDEN
    if isinstance(headers := target.get("headers"), dict):
        shown["headers"] = {name: HIDDEN if _CREDENTIAL.search(name) else value for name, value in headers.items()}
    return shown


def is_reference(secret: str) -> bool:
    """Whether a secret is named (`env:NAME`, `file:PATH`), to be read where it is needed."""
    return _REFERENCE.fullmatch(secret) is not None


def is_signing_secret(secret: str) -> bool:
    """Whether this is a secret of Standard Webhooks: `whsec_` and base64, padded or not."""
    prefix, encoded = secret[:6], secret[6:].rstrip("=")
    try:
        key = b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except ValueError:
        return False
    return prefix == "whsec_" and bool(key)


def _check(spec: TargetSpec) -> None:
    """What the types alone do not say."""
    match spec:
        case HttpTarget():
            _check_url(spec.url)
            _check_secret(spec.secret)
            _check_headers(spec.headers)
        case CommandTarget():
            _check_argv(spec.argv)
            if spec.cwd is not None and not check_name("target.cwd", spec.cwd, most=_LONGEST_PATH).startswith("/"):
                raise InvalidInput("target.cwd", "must be an absolute path.")
        case PythonTarget():
            check_name("target.name", spec.name, most=100)
        case TmuxTarget():
            _check_tmux(spec)


def _check_url(url: str) -> None:
    field = "target.url"
    check_text(field, url, most=_LONGEST_URL, least=1)
    # Before anything is parsed: urlsplit silently drops tabs and newlines.
    if _NOT_IN_URL.search(url):
        raise InvalidInput(
            field, "must be ASCII without blanks, control characters or backslashes; write others as %XX."
        )
    if "#" in url:
        raise InvalidInput(field, "must not have a fragment.")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise InvalidInput(field, "must have a valid host and a port from 1 to 65535.") from None
    if parts.scheme not in ("http", "https"):
        raise InvalidInput(field, "must begin with http:// or https://.")
    if "@" in parts.netloc:
        raise InvalidInput(field, "must not have a user or password; use headers.")
    if not _is_host(host, written=parts.netloc.removesuffix(f":{port}")):
        raise InvalidInput(field, "must name a host, an international one in its xn-- form.")
    if port == 0 or parts.netloc.endswith(":"):
        raise InvalidInput(field, "must have a port from 1 to 65535, or none.")


def _is_host(host: str, *, written: str) -> bool:
    if not written.startswith("["):
        return len(host) <= _LONGEST_HOST and _HOST_NAME.fullmatch(host) is not None
    try:
        return written.lower() == f"[{host}]" and not IPv6Address(host).scope_id
    except ValueError:
        return False


def _check_secret(secret: str | None) -> None:
    if secret is None:
        return
    check_name("target.secret", secret, most=_LONGEST_PATH)
    if not is_reference(secret) and not is_signing_secret(secret):
        raise InvalidInput("target.secret", "must be env:NAME, file:PATH, or whsec_ followed by base64.")


def _check_headers(headers: dict[str, str]) -> None:
    if len(headers) > _MOST_HEADERS:
        raise InvalidInput("target.headers", f"must be at most {_MOST_HEADERS}.")
    seen = set()
    for name, value in headers.items():
        field, lower = f"target.headers.{printable(name)}", name.lower()
        if not _HEADER_NAME.fullmatch(name):
            raise InvalidInput(field, "is not a header name.")
        if lower in _OUR_HEADERS or lower.startswith(("webhook-", "pillarbox-")):
            raise InvalidInput(field, "is set by Pillarbox or by the connection.")
        if lower in seen:
            raise InvalidInput(field, "is given twice.")
        if len(value) > _LONGEST_HEADER:
            raise InvalidInput(field, f"must have at most {_LONGEST_HEADER} characters.")
        if not _HEADER_VALUE.fullmatch(value):
            raise InvalidInput(field, "must be printable ASCII without blanks around it.")
        if value == HIDDEN and _CREDENTIAL.search(name):
            raise InvalidInput(field, f"must be the value itself, not the {HIDDEN} shown in its place.")
        seen.add(lower)


def _check_tmux(spec: TmuxTarget) -> None:
    # With a `$` it would be an id, which another session gets when tmux is started again.
    if check_name("target.name", spec.name, most=200).startswith("$"):
        raise InvalidInput("target.name", "must be a session's name, which does not begin with $.")
    if spec.start:
        _check_argv(spec.start, "target.start")
    if spec.cwd is not None and not check_name("target.cwd", spec.cwd, most=_LONGEST_PATH).startswith("/"):
        raise InvalidInput("target.cwd", "must be an absolute path.")
    if spec.socket is None:
        return
    check_name("target.socket", spec.socket, most=_LONGEST_SOCKET)
    if not spec.socket.startswith("/") and not _SOCKET_NAME.fullmatch(spec.socket):
        raise InvalidInput("target.socket", "must be an absolute path, or a name as tmux -L takes it.")


def _check_argv(argv: tuple[str, ...], field: str = "target.argv") -> None:
    if not 1 <= len(argv) <= _MOST_ARGUMENTS:
        raise InvalidInput(field, f"must have 1 to {_MOST_ARGUMENTS} items.")
    for index, item in enumerate(argv):
        check_text(f"{field}.{index}", item, most=_LARGEST_ARGV)
    # It names the destination too, which is part of an index.
    check_name(f"{field}.0", argv[0], most=_LONGEST_PROGRAM)
    if sum(len(item.encode()) for item in argv) > _LARGEST_ARGV:
        raise InvalidInput(field, f"must have at most {_LARGEST_ARGV} bytes in all.")


def _fault(error: msgspec.ValidationError) -> tuple[str, str]:
    text, _, path = str(error).partition(" - at `$")
    field = "target" + path.rstrip("`").replace("[...]", "").replace("[", ".").replace("]", "")
    if named := _NAMED_FIELD.search(text):
        return f"{field}.{printable(named[2])}", "is missing." if named[1] == "missing required" else "is not known."
    return field, re.sub(r" '.*'", "", text) + "."
