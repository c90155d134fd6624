"""What a provider is: a complete message in, a verdict out."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol, TypeGuard

from pillarbox.errors import InvalidInput
from pillarbox.outbound.model import Channel
from pillarbox.text import printable

_METHOD = re.compile(r"[A-Z]{1,16}")
_URL = re.compile(r"[\x21-\x7e]+")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_IN_A_HEADER = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

Judgement = Literal["accepted", "rejected", "transient", "unknown"]


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file as it goes out: read, checked, within its limits."""

    filename: str
    content_type: str
    content: bytes


@dataclass(slots=True, kw_only=True)
class Outgoing:
    """A message at one attempt, complete: no provider looks anything up.

    Not frozen, because making a frozen one takes as long as all else that is done for a message before it is sent.
    """

    message_id: str
    tenant_id: str
    channel: Channel
    to: str
    attempt: int
    at: datetime
    created_at: datetime
    sender: str | None = None
    subject: str | None = None
    text: str | None = None
    html: str | None = None
    body: bytes | None = None
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    cc: Sequence[str] = ()
    bcc: Sequence[str] = ()
    reply_to: str | None = None
    attachments: Sequence[Attachment] = ()
    platform: str | None = None
    data: Mapping[str, Any] | None = None
    unsubscribe_url: str | None = None


@dataclass(frozen=True, slots=True)
class Account:
    """How one tenant uses a provider: where it is, the tenant's options, and the secrets its references led to."""

    base_url: str
    options: Mapping[str, Any] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request, byte for byte; none can be made whose parts would run into each other."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes = b""

    def __post_init__(self) -> None:
        if not _METHOD.fullmatch(self.method):
            raise InvalidInput("method", "must be a word in capital letters.")
        if not _URL.fullmatch(self.url):
            raise InvalidInput("url", "must consist of visible ASCII characters.")
        for name, value in self.headers.items():
            if not _HEADER_NAME.fullmatch(name):
                raise InvalidInput(f"headers.{printable(name)}", "must be named by letters, digits and dashes.")
            if _NOT_IN_A_HEADER.search(value):
                raise InvalidInput(f"headers.{name}", "must not contain control characters.")


@dataclass(frozen=True, slots=True)
class Response:
    """What came back: names of headers in lower case, the first 64 KiB of the body, and when, by the wall clock."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How an attempt ended.

    `error` is our own sentence with the provider's documented code, never text of its answer. `delivered` where acceptance
    is delivery. `retry_after` seconds are a floor under the next delay. `opt_out` tells that the recipient does not want to
    be written to any more. `last_chance` makes the next attempt the last one. `request` and `response` are what was said, of a
    provider that does the sending itself; secrets and addresses are taken out of them before they are kept.
    """

    judgement: Judgement
    error: str | None = None
    status_code: int | None = None
    provider_msg_id: str | None = None
    delivered: bool = False
    retry_after: float | None = None
    opt_out: bool = False
    last_chance: bool = False
    request: str | None = field(default=None, compare=False, repr=False)
    response: str | None = field(default=None, compare=False, repr=False)


Begin = Callable[[], Awaitable[None]]
"""The last word on whether a message may leave: returns at once, or after a look at who has opted out, or raises."""


class HttpProvider(Protocol):
    """A provider that takes each message as one HTTP request; everything but the request and its answer is written once.

    `request` gives the same bytes for the same message, and raises `InvalidInput` for one it can never carry. `verdict`
    takes whatever comes back and raises nothing.
    """

    name: str
    channels: frozenset[Channel]
    credentials: tuple[str, ...]
    """Names of the secrets it needs."""
    optional_credentials: tuple[str, ...]
    options: tuple[str, ...]
    """Names of the options a tenant may set beside `from`."""
    base_url: str
    """Where it is unless `[providers.NAME] base_url` says otherwise."""

    def request(self, message: Outgoing, account: Account) -> Request: ...

    def verdict(self, response: Response) -> Verdict: ...


class DirectProvider(Protocol):
    """A provider that is not one HTTP request: it does the sending itself.

    `send` ends within `deadline` seconds and tells what happened as a verdict: `transient` where the message certainly never
    left, `unknown` where it may have. It raises `InvalidInput` for a message it can never carry, and bears being cancelled.
    It awaits `begin` right before the first byte of a message leaves, after all connecting and waiting; before every such
    byte, if it tries more than once. What `begin` raises is let through, and nothing of the message leaves.
    """

    name: str
    channels: frozenset[Channel]
    credentials: tuple[str, ...]
    optional_credentials: tuple[str, ...]
    options: tuple[str, ...]
    base_url: str

    async def send(self, message: Outgoing, account: Account, *, deadline: float, begin: Begin) -> Verdict: ...


Provider = HttpProvider | DirectProvider


def is_direct(provider: Provider) -> TypeGuard[DirectProvider]:
    """Whether a provider does the sending itself."""
    return hasattr(provider, "send")
