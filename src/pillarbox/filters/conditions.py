"""A filter as conditions on one pipe's rows, its values always parameters."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from string import ascii_lowercase, ascii_uppercase
from typing import assert_never

from pillarbox.errors import InvalidInput
from pillarbox.filters.model import Comparison, Filter, Pipe, Term, Value
from pillarbox.filters.words import STATUSES, WORDS

ContactHash = Callable[[str, str], str]
"""A tenant and an address as it was written, to how the recipient is kept."""

_SENDING = "CASE WHEN q.state = 'sending' THEN {} ELSE {} END"
_COLUMNS: dict[str, dict[Pipe, str]] = {
    "status": {
        "outbound": _SENDING.format("'processing'", "h.status"),
        "inbound": "m.status",
        "hooks": "m.status",
    },
    "channel": {"outbound": "h.channel"},
    "tenant": {"outbound": "h.tenant_id"},
    "to": {"outbound": "h.contact"},
    "contact": {"outbound": "h.contact"},
    "provider": {"outbound": "h.provider"},
    "tag": {"outbound": "h.tags"},
    "category": {"outbound": "h.category"},
    "priority": {"outbound": "h.priority"},
    "session": {"inbound": "m.session_id", "hooks": "m.session_id"},
    "origin": {"inbound": "m.origin"},
    "type": {"inbound": "m.message_type", "hooks": "m.event_type"},
    "error": {"outbound": "h.error_message", "inbound": "m.last_error", "hooks": "m.last_error"},
    "attempts": {
        "outbound": _SENDING.format("q.attempt_count", "h.attempt_count"),
        "inbound": "m.attempt_count",
        "hooks": "m.attempt_count",
    },
    "age": {"outbound": "h.created_at", "inbound": "m.created_at", "hooks": "m.created_at"},
    "id": {"outbound": "h.message_id", "inbound": "m.id", "hooks": "m.id"},
}
_OLDER: dict[Comparison, str] = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_LARGEST_ID = 2**63 - 1
_LOWERED = str.maketrans(ascii_uppercase, ascii_lowercase)


@dataclass(slots=True)
class Conditions:
    """What must hold of a row, as SQL with named parameters; empty where everything matches."""

    texts: list[str] = field(default_factory=list)
    params: dict[str, object] = field(default_factory=dict)

    @property
    def sql(self) -> str:
        return "".join(f" AND {text}" for text in self.texts)

    def bind(self, value: object) -> str:
        name = f"f{len(self.params)}"
        self.params[name] = value
        return name


def conditions_of(wanted: Filter, pipe: Pipe, *, now: datetime, contact_hash: ContactHash) -> Conditions | None:
    """The conditions on a pipe's rows, or None where none of them can match."""
    found = Conditions()
    for term in in_words_of(pipe, wanted).terms:
        if term.name == "pipe":
            if (pipe in {value.content for value in term.values}) is term.negated:
                return None
            continue
        text = _text(term, pipe, wanted, found, now, contact_hash)
        if text is None:
            if not term.negated:
                return None
        else:
            found.texts.append(text)
    return found


def in_words_of(pipe: Pipe, wanted: Filter) -> Filter:
    """The same filter in one pipe's words: what will be tried again is `failed` everywhere but on its way out."""
    if pipe == "outbound":
        return wanted
    return Filter(tuple(_without_retrying(term) if term.name == "status" else term for term in wanted.terms))


def _without_retrying(term: Term) -> Term:
    failed = Value("failed", "failed")
    values = (failed if value.content == "retrying" else value for value in term.values)
    return Term(term.name, tuple(dict.fromkeys(values)), term.negated)


def _text(
    term: Term, pipe: Pipe, wanted: Filter, found: Conditions, now: datetime, contact_hash: ContactHash
) -> str | None:
    """The condition of one term; None where no row of this pipe has such a thing."""
    column = _COLUMNS[term.name].get(pipe)
    if column is None:
        return None
    values = _values(term, pipe, wanted, contact_hash)
    if not values:
        return None
    match WORDS[term.name].kind:
        case "number":
            return _either(term, [f"{column} {value.comparison} :{found.bind(value.content)}" for value in values])
        case "span":
            return _either(term, [_aged(column, value, found, now) for value in values])
        case "text":
            return _either(term, [_contains(column, str(value.content), found) for value in values])
        case "choice" | "name":
            if term.name == "tag":
                tags = [json.dumps(value.content, ensure_ascii=False) for value in values]
                return _either(term, [f"replace({column}, :{found.bind(tag)}, '') <> {column}" for tag in tags])
            return _among(term, column, [value.content for value in values], found)
        case other:
            assert_never(other)


def _values(term: Term, pipe: Pipe, wanted: Filter, contact_hash: ContactHash) -> Sequence[Value]:
    """The values that a row of this pipe could have."""
    match term.name:
        case "status":
            return [value for value in term.values if value.content in STATUSES[pipe]]
        case "to":
            tenant = wanted.only("tenant")
            if tenant is None:
                raise needs_tenant()
            return [Value(contact_hash(tenant, str(value.content)), value.written) for value in term.values]
        case "id" if pipe != "outbound":
            numbers = [value for value in term.values if value.written.isascii() and value.written.isdigit()]
            return [Value(int(value.written), value.written) for value in numbers if int(value.written) <= _LARGEST_ID]
        case _:
            return term.values


def needs_tenant() -> InvalidInput:
    """A recipient is known to each tenant apart."""
    return InvalidInput("filter", "to needs one tenant beside it, as in tenant:acme to:ann@example.com.")


def _either(term: Term, texts: Sequence[str]) -> str:
    text = " OR ".join(texts)
    return f"NOT ({text})" if term.negated else f"({text})"


def _among(term: Term, column: str, contents: Sequence[object], found: Conditions) -> str:
    name = found.bind(list(contents))
    kind = "bigint" if isinstance(contents[0], int) else "text"
    if term.negated:
        return f"({column} IS NULL OR {column} :not_in({name} {kind}))"
    return f"{column} :in({name} {kind})"


def _aged(column: str, value: Value, found: Conditions, now: datetime) -> str:
    assert isinstance(value.content, timedelta)
    return f"{column} {_OLDER[value.comparison]} :{found.bind(now - value.content)}"


def _contains(column: str, part: str, found: Conditions) -> str:
    """A to Z may be written either way; of other letters databases do not agree on which are the same."""
    text = f"COALESCE(:lowered({column}), '')"
    return f"replace({text}, :{found.bind(part.translate(_LOWERED))}, '') <> {text}"
