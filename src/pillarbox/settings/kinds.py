"""What the annotations of the settings tree say, asked in one place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from msgspec import Meta, Struct
from msgspec.structs import FieldInfo, fields

from pillarbox.settings.tree import Settings

Path = tuple[str, ...]

_WORDS = {bool: "true or false", int: "integer", float: "number", str: "text", Any: "anything"}


def bare(kind: Any) -> Any:
    """Take the annotations and a None off a kind."""
    if get_origin(kind) is Annotated:
        return bare(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return bare(next(part for part in get_args(kind) if part is not type(None)))
    return kind


def is_section(kind: Any) -> bool:
    """Tell whether a kind is a table with known names."""
    return isinstance(bare(kind), type) and issubclass(bare(kind), Struct)


def is_mapping(kind: Any) -> bool:
    """Tell whether a kind is a table with names of the user's own."""
    return get_origin(bare(kind)) is Mapping


def is_composite(kind: Any) -> bool:
    """Tell whether a variable of this kind is written as JSON."""
    return is_section(kind) or get_origin(bare(kind)) in (Mapping, tuple)


def choices(kind: Any) -> tuple[str, ...]:
    """Give the words a kind is limited to, or none."""
    return get_args(bare(kind)) if get_origin(bare(kind)) is Literal else ()


def kind_of(path: Path) -> Any | None:
    """Find the kind of the setting at a path, or None when there is no such setting."""
    kind: Any = Settings
    for name in path:
        if is_section(kind):
            kind = {each.name: each.type for each in fields(bare(kind))}.get(name)
        elif kind is not Any:
            kind = get_args(bare(kind))[1] if is_mapping(kind) else None
    return kind


def known_settings(section: type[Struct] = Settings, above: Path = ()) -> Iterator[tuple[Path, FieldInfo]]:
    """Walk over every setting there is, `*` standing for a name of the user's own."""
    for each in fields(section):
        path = (*above, each.name)
        if is_section(each.type):
            yield from known_settings(bare(each.type), path)
        elif is_mapping(each.type) and is_section(inner := get_args(bare(each.type))[1]):
            yield from known_settings(bare(inner), (*path, "*"))
        else:
            yield path, each


def in_words(kind: Any) -> str:
    """Say what a kind accepts, for people."""
    bared = bare(kind)
    if words := choices(kind):
        return " or ".join(f"`{word}`" for word in words)
    if get_origin(bared) is tuple:
        return f"list of {in_words(get_args(bared)[0])}"
    if is_mapping(kind):
        return f"table of {in_words(get_args(bared)[1])}"
    return _WORDS[bared]


def doc_of(kind: Any) -> str:
    """Give the one-line description of a setting."""
    notes = kind.__metadata__ if get_origin(kind) is Annotated else ()
    return next((note.description for note in notes if isinstance(note, Meta) and note.description), "")
