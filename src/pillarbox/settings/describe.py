"""Every setting with its kind, default and meaning, for the reference pages and their test."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec.structs import FieldInfo

from pillarbox.settings.kinds import doc_of, in_words, known_settings


class Description(NamedTuple):
    """One setting as the reference shows it; the default is written as in TOML."""

    section: str
    name: str
    type: str
    default: str
    doc: str


def describe_settings() -> list[Description]:
    """List every setting in the order of the tree."""
    return [
        Description(".".join(path[:-1]), path[-1], in_words(each.type), _default(each), doc_of(each.type))
        for path, each in known_settings()
    ]


def _default(each: FieldInfo) -> str:
    value = each.default if each.default_factory is msgspec.NODEFAULT else each.default_factory()
    return "unset" if value is None else msgspec.json.encode(_short(value)).decode()


def _short(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return [_short(item) for item in value] if isinstance(value, tuple) else value
