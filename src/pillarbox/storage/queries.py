"""Named blocks of SQL, one text for all databases.

A block opens with `-- name: NAME`, or `-- name: NAME postgres` where one database needs its own. Behind that stand `once`, where
one plan fits all parameters, so that a server need not plan it each time, and `bears_damage`, where a checksum, or whoever looks,
tells what of a row was damaged on disk, so that other rows need not wait for it. Inside it:

    :name                          a parameter
    x :in(ids bigint)              x is one of a parameter's values; likewise :not_in
    :rows(id bigint, at instant)   the parameter `rows`, a list of tuples, as a table `rows` with these columns
    :lock(t) / :skip_locked(t)     lock the rows of t, waiting for them or passing over those locked by others
    :share(t)                      keep others from locking the rows of t, not from sharing them
    :lowered(x)                    x with A to Z as a to z and every other letter as it is, whatever the database's locale

Types are PostgreSQL's, and `instant`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from string import ascii_lowercase, ascii_uppercase
from types import SimpleNamespace
from typing import Any

from pillarbox.storage.database import Statement

_BLOCK = re.compile(r"^-- name: (\w+)(?: (sqlite|postgres))?( once)?( bears_damage)?\n", re.MULTILINE)
_MACRO = re.compile(r":(rows|in|not_in|lock|skip_locked|share|lowered)\(([^)]*)\)")
_PARAM = re.compile(r"(?<![:\w]):([a-z_]\w*)")
_CHANGES = re.compile(r"\b(?:INSERT|UPDATE|DELETE|CREATE|ALTER|DROP)\b")
_COMMENT = re.compile(r"^\s*--.*\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Query:
    """One named block, in each dialect; calling it with parameters makes a statement."""

    name: str
    sqlite: str
    postgres: str
    sets: tuple[str, ...]
    changes: bool
    answers: bool
    once: bool = False
    bears_damage: bool = False

    def __call__(self, **params: object) -> Statement:
        return Statement(self, params)


def load_queries(package: str, file: str = "queries.sql", **tables: str) -> Any:
    """The blocks of a package's SQL file, as attributes of one object; `{name}` in it stands for the table so named."""
    text = files(package).joinpath(file).read_text(encoding="utf-8")
    for name, table in tables.items():
        text = text.replace(f"{{{name}}}", table)
    return SimpleNamespace(**{query.name: query for query in parse_queries(text)})


def parse_queries(text: str) -> Iterator[Query]:
    """The queries of a text; a block for one database stands over the common one."""
    if unread := [line for line in text.splitlines() if line.startswith("-- name:") and not _BLOCK.match(f"{line}\n")]:
        raise ValueError(f"this opens no block: {unread[0]}")
    texts: dict[str, dict[str, str]] = {}
    once, bearing = set(), set()
    marks = list(_BLOCK.finditer(text))
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    for mark, end in zip(marks, ends, strict=True):
        body = _COMMENT.sub("", text[mark.end() : end]).strip().rstrip(";")
        texts.setdefault(mark[1], {})[mark[2] or "common"] = body
        if mark[3]:
            once.add(mark[1])
        if mark[4]:
            bearing.add(mark[1])
    for name, bodies in texts.items():
        sqlite = bodies.get("sqlite", bodies.get("common", ""))
        postgres = bodies.get("postgres", bodies.get("common", ""))
        sets = tuple(m[2] for m in _MACRO.finditer(postgres) if m[1] == "rows")
        told = postgres or sqlite
        changes = _CHANGES.search(told) is not None
        yield Query(
            name,
            sqlite=_MACRO.sub(_sqlite, sqlite).replace("::instant", ""),
            postgres=_PARAM.sub(r"%(\1)s", _MACRO.sub(_postgres, postgres.replace("%", "%%"))).replace(
                "::instant", "::timestamptz"
            ),
            sets=tuple(column.split()[0] for column in sets[0].split(",")) if sets else (),
            changes=changes,
            answers="RETURNING" in told or not changes,
            once=name in once,
            bears_damage=name in bearing,
        )


def _sqlite(macro: re.Match[str]) -> str:
    match macro[1]:
        case "rows":
            columns = ", ".join(f"value ->> {i} AS {name}" for i, (name, _) in enumerate(_columns(macro[2])))
            return f"(SELECT {columns} FROM json_each(:rows)) AS rows"
        case "in" | "not_in":
            negated = "NOT " if macro[1] == "not_in" else ""
            return f"{negated}IN (SELECT value FROM json_each(:{macro[2].split()[0]}))"
        case "lowered":
            return f"lower({macro[2]})"
        case _:
            return ""


def _postgres(macro: re.Match[str]) -> str:
    match macro[1]:
        case "rows":
            columns = _columns(macro[2])
            arrays = ", ".join(f":rows_{name}::{kind}[]" for name, kind in columns)
            return f"unnest({arrays}) AS rows({', '.join(name for name, _ in columns)})"
        case "in" | "not_in":
            name, kind = macro[2].split()
            return f"{'= ANY' if macro[1] == 'in' else '<> ALL'}(:{name}::{kind}[])"
        case "lock":
            return f"FOR NO KEY UPDATE OF {macro[2]}"
        case "share":
            return f"FOR SHARE OF {macro[2]}"
        case "lowered":
            return f"translate({macro[2]}, '{ascii_uppercase}', '{ascii_lowercase}')"
        case _:
            return f"FOR NO KEY UPDATE OF {macro[2]} SKIP LOCKED"


def _columns(text: str) -> list[tuple[str, str]]:
    pairs = (column.split() for column in text.split(","))
    return [(name, "timestamptz" if kind == "instant" else kind) for name, kind in pairs]
