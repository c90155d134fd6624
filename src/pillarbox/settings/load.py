"""Reading the settings: defaults, then `pillarbox.toml`, then variables, then what the caller says."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path as File
from typing import Any, NamedTuple

import msgspec

from pillarbox.errors import SettingsError
from pillarbox.settings.kinds import Path, choices, is_composite, is_section, kind_of, known_settings
from pillarbox.settings.tree import Settings

_PREFIX = "PILLARBOX_"
_NOT_SETTINGS = frozenset(
    _PREFIX + name
    for name in (
        *("DATABASE", "ADMIN_KEY"),
        # What a command target is told of its message; it may well call us.
        *("SESSION", "MESSAGE_ID", "SEQ", "ATTEMPT", "TOKEN", "ORIGIN"),
    )
)


class Given(NamedTuple):
    """One value somebody gave, and where."""

    path: Path
    value: object
    source: str


def load_settings(
    path: File | None = None, environ: Mapping[str, str] | None = None, **overrides: Mapping[str, object]
) -> Settings:
    """Read the settings, or stop with a `SettingsError` that names the one at fault."""
    tree: dict[str, Any] = {}
    for given in _in_rising_precedence(path, os.environ if environ is None else environ, overrides):
        _place(tree, given.path, _checked(given))
    return msgspec.convert(tree, Settings)


def _in_rising_precedence(
    path: File | None, environ: Mapping[str, str], overrides: Mapping[str, object]
) -> Iterator[Given]:
    file = path or File("pillarbox.toml")
    if path is not None or file.exists():
        yield from _leaves(_read(file), str(file))
    for variable in sorted(environ):
        if variable.startswith(_PREFIX) and not _is_no_setting(variable):
            yield from _from_variable(variable, environ[variable])
    yield from _leaves(overrides, "the caller")


def _read(file: File) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            return tomllib.load(stream)
    except OSError as error:
        raise SettingsError(
            f"The settings file {file} cannot be read: {error.strerror}; check its path and mode."
        ) from error
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"The settings file {file} is not TOML: {error}.") from error


def _leaves(table: Mapping[str, object], source: str, above: Path = ()) -> Iterator[Given]:
    for name, value in table.items():
        path = (*above, name)
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, source, path)
        else:
            yield Given(path, value, source)


def _is_no_setting(variable: str) -> bool:
    return variable in _NOT_SETTINGS or variable.startswith("PILLARBOX_TEST_")


def _from_variable(variable: str, text: str) -> Iterator[Given]:
    path = tuple(variable.removeprefix(_PREFIX).lower().split("__"))
    kind = kind_of(path)
    if kind is None or len(path) == 1 or variable != variable.upper():
        raise SettingsError(f"{variable} is not a setting{_nearest_variable(variable)}")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise SettingsError(f"{variable} is not UTF-8 text.")
    if not is_composite(kind):
        yield Given(path, _scalar(path, text, kind, variable), variable)
        return
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{variable} must be a JSON list or object, as in [1, 2].") from error
    nested = isinstance(value, Mapping) and value
    yield from _leaves(value, variable, path) if nested else [Given(path, value, variable)]


def _scalar(path: Path, text: str, kind: Any, variable: str) -> object:
    try:
        return msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _invalid(path, kind, variable, error) from None


def _checked(given: Given) -> object:
    kind = kind_of(given.path)
    if kind is None:
        name = ".".join(given.path)
        near = _nearest(name, map(".".join, _known_paths()))
        raise SettingsError(f"{name}, given by {given.source}, is not a setting{near}")
    try:
        msgspec.convert(given.value, kind)
    except msgspec.ValidationError as error:
        # Not chained: msgspec quotes a word it refuses, and that may be a secret.
        raise _invalid(given.path, kind, given.source, error) from None
    return given.value


def _invalid(path: Path, kind: Any, source: str, error: msgspec.ValidationError) -> SettingsError:
    reason, _, place = str(error).partition(" - at `$")
    if words := choices(kind):
        reason = f"expected one of {', '.join(words)}"
    name = ".".join(path) + place.rstrip("`")
    return SettingsError(f"{name}, given by {source}, cannot be used: {reason[:1].lower()}{reason[1:]}.")


def _place(tree: dict[str, Any], path: Path, value: object) -> None:
    if is_section(kind_of(path)):
        return
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def _known_paths() -> Iterator[Path]:
    return (path for path, _ in known_settings())


def _nearest_variable(variable: str) -> str:
    # Without the prefix: it makes any two variables look alike.
    known = [*("__".join(path).upper() for path in _known_paths()), "DATABASE", "ADMIN_KEY"]
    near = get_close_matches(variable.removeprefix(_PREFIX), known, n=1, cutoff=0.5)
    return f"; did you mean {_PREFIX}{near[0]}?" if near else "; remove it."


def _nearest(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else "; remove it."
