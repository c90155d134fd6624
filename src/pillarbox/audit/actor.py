"""Who is acting: known to whatever runs on behalf of one request, one command, one page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_actor: ContextVar[str | None] = ContextVar("pillarbox_actor", default=None)


@contextmanager
def acting_as(who: str | None) -> Iterator[None]:
    """Let what is done inside be written down as done by somebody: `key:ID`, `login:ID`, `cli:USER`."""
    token = _actor.set(who)
    try:
        yield
    finally:
        _actor.reset(token)


def actor() -> str | None:
    """Who is acting, or None where a program calls its own box and nobody is to be named."""
    return _actor.get()
