"""The provider that sends nothing: it behaves as the recipient's address says, and keeps what it was given."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Literal, get_args
from urllib.parse import urlsplit

from pillarbox.errors import InvalidInput
from pillarbox.outbound.model import CHANNELS, Channel
from pillarbox.outbound.provider import Account, Begin, Outgoing, Verdict
from pillarbox.telemetry.redact import HIDDEN

Trouble = Literal["fail", "throttle", "hang", "unknown", "flaky"]
TROUBLES: tuple[Trouble, ...] = get_args(Trouble)

_MOST_KEPT = 500
_MOST_BYTES_KEPT = 32 * 1024 * 1024
_MOST_ARRANGED = 1000
_DELIVERED_AT_ONCE: frozenset[Channel] = frozenset({"webhook", "inapp"})
_NUMBER = re.compile(r"\+[0-9]{5,}")
_WORDS = re.compile(r"[a-z]+")


@dataclass(frozen=True, slots=True)
class _Behaviour:
    verdict: Verdict
    attempts: float = float("inf")
    """How many attempts of a message it spoils."""


_BEHAVIOURS: dict[Trouble, _Behaviour] = {
    "fail": _Behaviour(Verdict(judgement="rejected", error="The sandbox rejected the message.", status_code=400)),
    "throttle": _Behaviour(
        Verdict(judgement="transient", error="The sandbox throttled the message.", status_code=429, retry_after=1.0), 1
    ),
    "hang": _Behaviour(Verdict(judgement="unknown", error="The sandbox did not answer in time.")),
    "unknown": _Behaviour(Verdict(judgement="unknown", error="The sandbox did not tell how it ended.")),
    "flaky": _Behaviour(Verdict(judgement="transient", error="The sandbox failed for a moment.", status_code=503), 2),
}
_LAST_DIGITS: dict[str, Trouble] = {f"{at:04}": trouble for at, trouble in enumerate(TROUBLES, start=1)}


@dataclass(frozen=True, slots=True)
class Sent:
    """A message the sandbox was given, and what it made of it."""

    message: Outgoing
    verdict: Verdict


class Sandbox:
    """Takes every channel and never leaves the machine.

    The words `fail`, `throttle`, `hang`, `unknown` and `flaky` in a mailbox's local part, a token or a URL's path, and the last
    digits 0001 to 0005 of a number, make that trouble: throttled once, flaky twice, the others always. All else is accepted.
    """

    name = "sandbox"
    channels: frozenset[Channel] = frozenset(CHANNELS)
    credentials: tuple[str, ...] = ()
    optional_credentials: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    base_url = ""

    def __init__(self) -> None:
        self._sent: deque[Sent] = deque()
        self._bytes_kept = 0
        self._arranged: deque[Trouble] = deque()
        self.obey: Callable[[Channel], Awaitable[Trouble | None]] | None = None
        """Tells, send by send, which trouble operators have arranged."""

    async def send(self, message: Outgoing, account: Account, *, deadline: float, begin: Begin) -> Verdict:
        """Behave as was arranged, or else as the recipient says."""
        ordered = None if self.obey is None else await self.obey(message.channel)
        await begin()
        verdict, hangs = self._decide(message, ordered)
        self._keep(Sent(_presentable(message), verdict))
        if hangs:
            await asyncio.sleep(deadline)
        return verdict

    def sent(self) -> tuple[Sent, ...]:
        """The last messages it was given, the oldest first."""
        return tuple(self._sent)

    def arrange(self, trouble: Trouble, times: int = 1) -> None:
        """Make the next sends end in this trouble, whoever they are for."""
        if trouble not in TROUBLES:
            raise InvalidInput("trouble", f"must be one of {', '.join(TROUBLES)}.")
        if not 1 <= times <= _MOST_ARRANGED - len(self._arranged):
            raise InvalidInput("times", f"must be at least 1, and no more than {_MOST_ARRANGED} may be arranged.")
        self._arranged.extend([trouble] * times)

    def _decide(self, message: Outgoing, ordered: Trouble | None) -> tuple[Verdict, bool]:
        if ordered is not None or self._arranged:
            trouble: Trouble | None = ordered or self._arranged.popleft()
            spoilt = True
        else:
            trouble = trouble_of(message)
            spoilt = trouble is not None and message.attempt <= _BEHAVIOURS[trouble].attempts
        if trouble is not None and spoilt:
            return _BEHAVIOURS[trouble].verdict, trouble == "hang"
        accepted = Verdict(
            judgement="accepted",
            provider_msg_id=f"sandbox-{message.message_id}",
            delivered=message.channel in _DELIVERED_AT_ONCE,
        )
        return accepted, False

    def _keep(self, sent: Sent) -> None:
        self._sent.append(sent)
        self._bytes_kept += _weight(sent.message)
        while len(self._sent) > _MOST_KEPT or (self._bytes_kept > _MOST_BYTES_KEPT and len(self._sent) > 1):
            self._bytes_kept -= _weight(self._sent.popleft().message)


def trouble_of(message: Outgoing) -> Trouble | None:
    """The trouble that a recipient's address asks for."""
    if _NUMBER.fullmatch(message.to):
        return _LAST_DIGITS.get(message.to[-4:])
    words = set(_WORDS.findall(_telling_part(message).lower()))
    return next((trouble for trouble in TROUBLES if trouble in words), None)


def _telling_part(message: Outgoing) -> str:
    match message.channel:
        case "email":
            return message.to.rpartition("@")[0]
        case "webhook":
            try:
                return urlsplit(message.to).path
            except ValueError:
                return ""
        case _:
            return message.to


def _presentable(message: Outgoing) -> Outgoing:
    """The message without what only its receiver may see: the values of a webhook's headers."""
    return replace(message, headers=dict.fromkeys(message.headers, HIDDEN)) if message.channel == "webhook" else message


def _weight(message: Outgoing) -> int:
    texts = (message.subject, message.text, message.html)
    files = sum(len(file.content) for file in message.attachments)
    return sum(len(text or "") for text in texts) + len(message.body or b"") + files
