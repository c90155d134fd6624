"""A filter that was read: terms that must all hold, each with values of which one must."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

Pipe = Literal["outbound", "inbound", "hooks"]
PIPES: tuple[Pipe, ...] = ("outbound", "inbound", "hooks")
Comparison = Literal["=", "<", "<=", ">", ">="]

_BARE = re.compile(r'[^\s,"\\]+')


@dataclass(frozen=True, slots=True)
class Value:
    """What a term is compared with, and how it was written."""

    content: str | int | timedelta
    written: str
    comparison: Comparison = "="


@dataclass(frozen=True, slots=True)
class Term:
    """One word of a filter and its values; a negated one holds where none of them does."""

    name: str
    values: tuple[Value, ...]
    negated: bool = False

    def __str__(self) -> str:
        return f"{'-' if self.negated else ''}{self.name}:{','.join(_spelt(value.written) for value in self.values)}"


@dataclass(frozen=True, slots=True)
class Filter:
    """All terms hold of whatever matches; a filter without terms matches everything."""

    terms: tuple[Term, ...] = ()

    def __str__(self) -> str:
        """The filter as it can be read again."""
        return " ".join(map(str, self.terms))

    def __and__(self, other: Filter) -> Filter:
        return Filter(self.terms + other.terms)

    def wanted(self, name: str) -> tuple[str, ...] | None:
        """The words of which one must hold, or None where the filter does not insist on any."""
        found: tuple[str, ...] | None = None
        for term in self.terms:
            if term.name == name and not term.negated:
                words = tuple(str(value.content) for value in term.values)
                found = words if found is None else tuple(word for word in found if word in words)
        return found

    def only(self, name: str) -> str | None:
        """The one word that must hold."""
        words = self.wanted(name)
        return words[0] if words is not None and len(words) == 1 else None


EVERYTHING = Filter()


def words(name: str, *contents: str) -> Filter:
    """A filter of one term, made by a program."""
    return Filter((Term(name, tuple(Value(content, content) for content in contents)),))


def _spelt(written: str) -> str:
    if _BARE.fullmatch(written):
        return written
    return '"' + written.replace("\\", "\\\\").replace('"', '\\"') + '"'
