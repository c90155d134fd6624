"""The `Idempotency-Key` and `Pillarbox-Lease-Id` headers: one name of 1 to 255 printable characters, bare or quoted."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pillarbox.errors import InvalidInput

LEASE_ID = "Pillarbox-Lease-Id"
_QUOTED = re.compile(rb'"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"')
_BARE = re.compile(rb"[\x21\x23-\x7e](?:[\x20\x21\x23-\x7e]*[\x21\x23-\x7e])?")
_ESCAPED = re.compile(rb'\\(["\\])')
_LONGEST = 255


def idempotency_key(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The key of a request, the same whether it was quoted or not; None where there is none. Refuses what is malformed."""
    return _only(headers, "Idempotency-Key")


def lease_id(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The name that a caller of try-begin chose for its lease."""
    return _only(headers, LEASE_ID)


def _only(headers: Iterable[tuple[bytes, bytes]], wanted: str) -> str | None:
    given = [value for name, value in headers if name.lower() == wanted.lower().encode()]
    if not given:
        return None
    value = given[0].strip(b" \t")
    if quoted := _QUOTED.fullmatch(value):
        value = _ESCAPED.sub(rb"\1", quoted[1])
    elif not _BARE.fullmatch(value):
        value = b""
    if len(given) > 1 or not 1 <= len(value) <= _LONGEST:
        raise InvalidInput(wanted, f"must be given once, as 1 to {_LONGEST} printable ASCII characters.")
    return value.decode("ascii")
