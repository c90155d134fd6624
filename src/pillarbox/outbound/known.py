"""What an attempt knows that nobody is to read again: its secrets, and whom it writes to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from urllib.parse import unquote_plus, urlsplit

from pillarbox.outbound.provider import Account, Outgoing, Request
from pillarbox.telemetry.disguises import TELLING, basic_pair
from pillarbox.telemetry.redact import HIDDEN, Veil
from pillarbox.text import in_sight

_LEAST_WORD = 8
_LEAST_VALUE = 4
_LEAST_PART = 3
_MOST_SECRETS = 300
_NOT_SECRET = frozenset({"content-type", "content-length", "accept", "user-agent", "webhook-id", "webhook-timestamp"})
_WORD = re.compile(r"[^\s,;]+")
NAMED = re.compile(r"(.*?)<([^<>]+)>\s*")
LOOKED_AT = 1024
"""So much of a text is looked at; what is shown of it is shorter."""

_LONGEST_PAIR = 1024


@dataclass(frozen=True)
class Known:
    """The secrets and addresses of an attempt; None where there are too many secrets to look for."""

    secrets: frozenset[str] | None
    addresses: frozenset[str]

    @cached_property
    def _veil(self) -> Veil:
        return Veil(secrets=self.secrets or (), addresses=self.addresses)

    def taken_out_of(self, text: str, most: int, *, is_cut: bool = False) -> str:
        """The beginning of a text without them, and nothing of it where that cannot be told."""
        if self.secrets is None:
            return HIDDEN
        is_longer, text = is_cut or len(text) > LOOKED_AT, text[:LOOKED_AT].replace("\r\n", "\n")
        text = self._veil.over(text, is_cut=is_longer)
        shown = in_sight(re.sub(r"\S+\Z", "", text) if is_longer else text).strip()
        return shown[: most - 1] + "…" if is_longer or len(shown) > most else shown


def known_of(message: Outgoing, account: Account, request: Request | None = None) -> Known:
    """The account's secrets, what the request carried to prove who asks, and everybody whom the message names."""
    secrets = list(islice(_secrets(message, account, request), _MOST_SECRETS + 1))
    told = None if len(secrets) > _MOST_SECRETS else frozenset(secret[:TELLING] for secret in secrets)
    people = {message.reply_to, message.sender, message.unsubscribe_url, *message.cc, *message.bcc}
    if message.channel != "webhook":
        people.add(message.to)
    people |= {named[2] for person in people if person and (named := NAMED.fullmatch(person))}
    return Known(told, frozenset(filter(None, people)))


def _secrets(message: Outgoing, account: Account, request: Request | None) -> Iterator[str]:
    for secret in filter(None, account.secrets.values()):
        yield from (secret, secret.removeprefix("whsec_"))
    for value in message.headers.values():
        yield from _in_header(value)
    if request is not None:
        for name, value in request.headers.items():
            if name.lower() not in _NOT_SECRET:
                yield from _in_header(value)
        yield from (part for part in _in_url(request.url) if len(part) >= _LEAST_PART)


def _in_header(value: str) -> Iterator[str]:
    """A header's value, its longer words, what they are said to be equal to, and who signs in with them."""
    if len(value) >= _LEAST_VALUE:
        yield value
    for found in _WORD.finditer(value):
        word = found[0]
        if len(word) >= _LEAST_WORD:
            yield word
        if len(said := word.partition("=")[2].strip("\"'")) >= _LEAST_VALUE:
            yield said
        if len(word) <= _LONGEST_PAIR:
            yield from (part for part in basic_pair(word) if len(part) >= _LEAST_PART)


def _in_url(url: str) -> Iterator[str]:
    parts = urlsplit(url)
    yield from (part for part in (parts.username, parts.password) if part)
    yield parts.query
    for part in re.split("[&;]", parts.query):
        value = part.partition("=")[2] or part
        yield from (part, value, unquote_plus(value))
