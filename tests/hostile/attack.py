"""One hostile request."""

from dataclasses import dataclass
from typing import Any

from tests.hostile.corpus.requests import Headers


@dataclass(frozen=True)
class Attack:
    """One request; `dropped` are the usual headers that it goes without, `expected` the statuses it may have, if known."""

    place: str
    method: str
    target: bytes
    headers: Headers = ()
    body: bytes = b""
    dropped: frozenset[str] = frozenset()
    expected: frozenset[int] = frozenset()

    @property
    def said(self) -> tuple[object, ...]:
        """What is sent: two attacks that say the same are one."""
        return (self.method, self.target, self.headers, self.dropped, self.body)


def but(attack: Attack, **changes: Any) -> Attack:
    """The same in all but this."""
    return Attack(**{**vars(attack), **changes})
