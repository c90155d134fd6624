"""Keys of consumers: bus, group, alias and the message's own id in one text, from which they can be told apart again."""

from __future__ import annotations

from typing import NamedTuple

from pillarbox.errors import InvalidInput

LONGEST_KEY = 2048


class KeyParts(NamedTuple):
    """Who handles which message."""

    bus: str
    group: str
    alias: str
    id_key: str


def inbox_key(bus: str, group: str, alias: str, id_key: str) -> str:
    """`{bus}:{group}:{alias}:{idKey}`, with `:` and `%` inside a part percent-encoded, so that no two quadruples collide."""
    return ":".join(part.replace("%", "%25").replace(":", "%3A") for part in (bus, group, alias, id_key))


def key_parts(key: str) -> KeyParts:
    """The parts that `inbox_key` put together."""
    parts = key.split(":")
    if len(parts) != len(KeyParts._fields):
        raise InvalidInput("key", "must have four parts, as in bus:group:alias:id.")
    return KeyParts(*(part.replace("%3A", ":").replace("%25", "%") for part in parts))
