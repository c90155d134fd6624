"""Rewrites the generated blocks of docs/reference from the code; with --check it only says which pages differ.

A block stands between `<!-- generated: NAME -->` and `<!-- end -->`, and NAME is one of the writers below.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

import click
from prometheus_client.parser import text_string_to_metric_families

from pillarbox import errors
from pillarbox.api.openapi import describe
from pillarbox.api.problems import problem_of
from pillarbox.api.routes import ENDPOINTS
from pillarbox.audit import Audit, OperatorAction
from pillarbox.box import Finding, Pillarbox
from pillarbox.cli.failures import code_of
from pillarbox.cli.main import cli
from pillarbox.hooks.intake import Spooled
from pillarbox.hooks.model import AgentState, HookEvent, HookRecord, HooksStatus, Stored
from pillarbox.hooks.pipe import Hooks
from pillarbox.inbound import Inbound
from pillarbox.inbound.model import Enqueued, InboundMessage, InboundStatus, QueueState
from pillarbox.inbox import Inbox
from pillarbox.inbox.model import Begun, InboxStatus, LeaseAnswer, Sighting
from pillarbox.keys import Keys
from pillarbox.keys.model import Key, NewKey
from pillarbox.operators.attention import Attention, AttentionItem
from pillarbox.operators.embeds import Embedded, EmbedLink, Embeds
from pillarbox.operators.log import Log
from pillarbox.operators.model import Count, LogItem, Stretch
from pillarbox.operators.nodes import Node, Nodes
from pillarbox.operators.operations import Operation, Operations
from pillarbox.operators.sandbox import Control, SandboxControls
from pillarbox.outbound.messages import Email, Push, Sms, Webhook
from pillarbox.outbound.model import (
    Attempt,
    Event,
    MessageItem,
    NewAttachment,
    OptOut,
    OutboundMessage,
    OutboundStatus,
    Tenant,
    TenantSettings,
)
from pillarbox.outbound.pipe import Outbound
from pillarbox.outbound.reading import Filter
from pillarbox.outbound.tenants import Tenants
from pillarbox.sessions import Sessions
from pillarbox.sessions.model import Session, SessionChange
from pillarbox.settings import describe_settings
from pillarbox.telemetry import Metrics

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "reference"

_NEVER_ASKED = {
    errors.PermanentError: "none: your own code raises it",
    errors.SecretUnavailable: "none: a message that needs the secret is tried again",
}
"""Errors that are no answer to a request or a command, and what becomes of them."""
DOORS: Mapping[str, tuple[type, str]] = {
    "Pillarbox": (
        Pillarbox,
        "open run stop migrate require_schema rehearse checkup advise prune inbox_status attention",
    ),
    "box.sessions": (Sessions, "open get list change close find_by_channel"),
    "box.inbound": (Inbound, "enqueue target get list queue status retry expire"),
    "box.hooks": (Hooks, "on post follow get list status spooled agent_state retry"),
    "box.outbound": (
        Outbound,
        "send get list cancel retry status opt_out opt_outs remove_opt_out unsubscribe forget contact_hash",
    ),
    "box.tenants": (Tenants, "set get list delete"),
    "box.inbox": (Inbox, "once idempotent is_processed mark_processed try_begin extend release look"),
    "box.keys": (Keys, "create list revoke"),
    "box.log": (Log, "page messages count follow"),
    "box.operations": (Operations, "preview start get list stop finish"),
    "box.audit": (Audit, "list"),
    "box.nodes": (Nodes, "list"),
    "box.sandbox": (SandboxControls, "arrange list clear mailbox"),
    "box.embeds": (Embeds, "make open revoke"),
}
"""What programs use, by the name they use it by."""
_PLAIN = {
    "get": "The one of that id; raises `NotFound` where there is none.",
    "list": "In the order of their names, from the one after `after`.",
    "opt_outs": "The tenant's opt-outs, from the one after `after`.",
    "status": "What waits in all, and how old the oldest is.",
}
"""What is said of methods whose names say enough where they stand."""
MESSAGES = (Email, Sms, Push, Webhook)
_ANSWERS: Sequence[type] = (
    *(Session, SessionChange, Enqueued, InboundMessage, QueueState, InboundStatus),
    *(Stored, HookEvent, HookRecord, HooksStatus, Spooled, AgentState),
    *(MessageItem, OutboundMessage, Attempt, Event, OutboundStatus, Filter, NewAttachment, OptOut),
    *(Tenant, TenantSettings, Begun, LeaseAnswer, Sighting, InboxStatus, Key, NewKey, Finding),
    *(LogItem, Stretch, Count, Operation, OperatorAction, Node, Control, EmbedLink, Embedded, Attention, AttentionItem),
)
_BLOCK = re.compile(r"(?<=<!-- generated: )(\w+)( -->\n).*?(?=<!-- end -->)", re.DOTALL)


def settings() -> str:
    """Every setting, a table for each section of `pillarbox.toml`."""
    pieces = []
    for section, items in groupby(describe_settings(), key=lambda item: item.section):
        rows = [
            [
                f"`{item.name}`",
                f"`PILLARBOX_{'__'.join([*section.split('.'), item.name]).upper()}`",
                item.type,
                f"`{item.default}`",
                item.doc,
            ]
            for item in items
        ]
        pieces.append(f"### `[{section}]`\n\n{_table(['name', 'variable', 'kind', 'default', 'meaning'], rows)}")
    return "\n".join(pieces)


def commands() -> str:
    """Every command's own help."""
    return "\n".join(
        f"## `{name}`\n\n```text\n{command.get_help(_context(command, name)).rstrip()}\n```\n"
        for name, command in walk_commands()
    )


def endpoints() -> str:
    """Every endpoint, as the OpenAPI document has it."""
    rows = []
    document = describe(ENDPOINTS)
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            key = "yes" if operation["security"] else "no"
            answers = ", ".join(sorted(operation["responses"]))
            rows.append([f"`{method.upper()} {path}`", operation["summary"], _taken(operation, document), key, answers])
    return _table(["endpoint", "what it does", "body or query", "key", "answers"], rows)


def error_classes() -> str:
    """Every error, what it is over HTTP, and how a command exits with it."""
    rows = []
    for kind in walk_errors():
        error = kind("field", "is wrong.") if issubclass(kind, errors.InvalidInput) else kind("...")
        parent = "" if kind is errors.PillarboxError else f"`{kind.__bases__[0].__name__}`"
        over_http, code = _over_http(error), "" if kind in _NEVER_ASKED else str(code_of(error))
        rows.append([f"`{kind.__name__}`", parent, (kind.__doc__ or "").strip(), over_http, code])
    return _table(["error", "is a", "meaning", "over HTTP", "exit code"], rows)


def metric_families() -> str:
    """Every metric with its labels."""
    rows = [
        [f"`{name}`", kind, ", ".join(f"`{label}`" for label in labels), text]
        for name, kind, labels, text in walk_metrics()
    ]
    return _table(["metric", "kind", "labels", "meaning"], rows)


def doors() -> str:
    """Every method that a program calls on a box and its parts, by signature and docstring."""
    pieces = []
    for name, (kind, methods) in DOORS.items():
        lines = [f"- `{_call(name, kind, method)}`  \n  {_said(kind, method)}" for method in methods.split()]
        pieces.append(f"## `{name}`\n\n{_prose(kind.__doc__)}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(pieces)


def messages() -> str:
    """Every field of the messages that `send` takes."""
    pieces = []
    for kind in MESSAGES:
        rows = [
            [f"`{field.name}`", f"`{field.annotation}`", _default(field)]
            for field in inspect.signature(kind).parameters.values()
        ]
        pieces.append(
            f"### `{kind.__name__}`\n\n{_prose(kind.__doc__)}\n\n{_table(['field', 'kind', 'default'], rows)}"
        )
    return "\n".join(pieces)


def answers() -> str:
    """Every type that the methods answer or take, with its fields."""
    rows = [
        [
            f"`{kind.__name__}`",
            f"`{kind.__module__}`",
            _prose(kind.__doc__),
            ", ".join(map("`{}`".format, _fields(kind))),
        ]
        for kind in _ANSWERS
    ]
    return _table(["type", "module", "meaning", "fields"], rows)


def schema() -> str:
    """Every table, as the migrations make it."""
    text: str = import_module(f"{__package__}.schema" if __package__ else "schema").described()
    return text


WRITERS: Mapping[str, Callable[[], str]] = {
    "settings": settings,
    "commands": commands,
    "endpoints": endpoints,
    "errors": error_classes,
    "metrics": metric_families,
    "doors": doors,
    "messages": messages,
    "answers": answers,
    "schema": schema,
}


def walk_commands() -> Iterator[tuple[str, click.Command]]:
    """Every command by its full name, groups before what is in them."""
    return _walk("pillarbox", cli)


def walk_errors(kind: type[errors.PillarboxError] = errors.PillarboxError) -> Iterator[type[errors.PillarboxError]]:
    """Every error class of `pillarbox.errors`, parents before children."""
    yield kind
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from walk_errors(child)


def walk_metrics() -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """Name, kind, labels and meaning of every metric."""
    metrics = Metrics()
    metrics.count_request(method="GET", route="/healthz", status=200)
    for family in text_string_to_metric_families(metrics.exposition().decode()):
        if not family.name.endswith("_created"):
            suffix = "_total" if family.type == "counter" else ""
            labels = {label: None for sample in family.samples for label in sample.labels if label != "le"}
            yield family.name + suffix, family.type, tuple(labels), family.documentation


def rewritten(page: str) -> str:
    """A page with its generated blocks as the code says today."""
    return _BLOCK.sub(lambda block: f"{block[1]}{block[2]}\n{WRITERS[block[1]]().strip()}\n\n", page)


def main(arguments: Sequence[str]) -> int:
    stale = [page for page in sorted(PAGES.glob("*.md")) if rewritten(page.read_text()) != page.read_text()]
    for page in stale:
        print(page.relative_to(ROOT))
        if "--check" not in arguments:
            page.write_text(rewritten(page.read_text()))
    return 1 if stale and "--check" in arguments else 0


def _over_http(error: errors.PillarboxError) -> str:
    kind = type(error)
    if kind is errors.PillarboxError:
        return ""
    if issubclass(kind, errors.InvalidInput | errors.NotFound | errors.Refused | errors.Unavailable):
        problem = problem_of(error)
        return f"{problem.status} `{problem.reason}`"
    return _NEVER_ASKED.get(kind, "none: it ends the start")


def _walk(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        for child in command.list_commands(_context(command, name)):
            found = command.get_command(_context(command, name), child)
            if found is not None and not found.hidden:
                yield from _walk(f"{name} {child}", found)


def _context(command: click.Command, name: str) -> click.Context:
    return click.Context(
        command, info_name=name, terminal_width=100, max_content_width=100, **dict(cli.context_settings)
    )


def _call(name: str, kind: type, method: str) -> str:
    """How a method is written where it is used."""
    function = getattr(kind, method)
    signature = inspect.signature(function)
    shown = [each for each in signature.parameters.values() if each.name not in ("self", "cls")]
    # Annotations are text here, which a signature puts in quotes; only those of defaults are meant.
    text = re.sub(r"(: )'((?:[^']|\\')*)'", r"\1\2", str(inspect.Signature(shown)))
    answer = "" if signature.return_annotation in ("None", None) else f" -> {signature.return_annotation}"
    if inspect.iscoroutinefunction(function):
        return f"await {'box' if kind is Pillarbox else name}.{method}{text}{answer}"
    if inspect.isasyncgenfunction(inspect.unwrap(function)):
        return f"async with {name}.{method}{text}"
    return f"{'box' if kind is Pillarbox else name}.{method}{text}{answer}"


def _said(kind: type, method: str) -> str:
    return _prose(inspect.getdoc(getattr(kind, method)) or _PLAIN[method])


def _prose(text: str | None) -> str:
    return " ".join((text or "").split())


def _default(field: inspect.Parameter) -> str:
    if field.default is inspect.Parameter.empty:
        return "needed"
    return "`{}`" if "factory" in repr(field.default) else f"`{field.default!r}`"


def _fields(kind: type) -> list[str]:
    """The public fields with their kinds, those of parents first."""
    own = [vars(base).get("__annotations__", {}) for base in reversed(kind.__mro__)]
    merged = {name: shape for fields in own for name, shape in fields.items() if not name.startswith("_")}
    return [f"{name}: {shape}" for name, shape in merged.items()]


def _taken(operation: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    names = [item["name"] + "?" for item in operation.get("parameters", []) if item["in"] == "query"]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body is not None:
        schema = document["components"]["schemas"][body["$ref"].rpartition("/")[2]]
        required = schema.get("required", [])
        names += (name if name in required else f"{name}?" for name in schema["properties"])
    return ", ".join(f"`{name}`" for name in names)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
