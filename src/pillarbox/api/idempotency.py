"""The header `Idempotency-Key`: what it may hold, and whose request is under way."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pillarbox.api.problems import RETRY_AFTER, Problem, invalid

IDEMPOTENCY_KEY = "Idempotency-Key"
REPLAYED = (b"idempotency-replayed", b"true")
_QUOTED = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"')
_ESCAPED = re.compile(r'\\(["\\])')


def read_key(values: Sequence[bytes]) -> str | None:
    """The key, bare or as the quoted string of a structured field; None where there is none."""
    if not values:
        return None
    try:
        text = values[0].decode().strip(" \t")
    except UnicodeDecodeError:
        raise invalid(IDEMPOTENCY_KEY, "must be UTF-8.") from None
    if len(values) > 1:
        raise invalid(IDEMPOTENCY_KEY, "must be given once.")
    if not text.startswith('"'):
        return text
    quoted = _QUOTED.fullmatch(text)
    if quoted is None:
        raise invalid(IDEMPOTENCY_KEY, "must be one whole quoted string, or a key without quotes.")
    return _ESCAPED.sub(r"\1", quoted[1])


class UnderWay:
    """The keys whose first request this process has not answered yet; another process waits in the database."""

    def __init__(self) -> None:
        self._keys: set[tuple[str, str]] = set()

    @contextmanager
    def hold(self, tenant: str, key: str | None) -> Iterator[None]:
        """Refuse a second request with the same key until the first is over."""
        if key is None:
            yield
            return
        if (tenant, key) in self._keys:
            detail = "The first request with this Idempotency-Key is still running; ask again for its answer."
            raise Problem(409, "idempotency-busy", detail, headers=[RETRY_AFTER])
        self._keys.add((tenant, key))
        try:
            yield
        finally:
            self._keys.discard((tenant, key))
