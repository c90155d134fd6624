"""What the answers of all providers have in common: the status decides, unless a provider's table knows better."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from pillarbox.outbound.provider import Judgement, Response, Verdict
from pillarbox.outbound.retry_after import http_date, seconds_to_wait

_WORTH_ANOTHER_TRY = frozenset({408, 425, 429})
_ID = re.compile(r"[\x21-\x7e]{1,200}")


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a status or code stands for, in our own words; where it does not judge, the status does."""

    sentence: str
    judgement: Judgement | None = None
    opt_out: bool = False
    last_chance: bool = False


def judge_status(status: int) -> Judgement:
    """What a status says by itself: no redirect is followed, and what is no final answer leaves the outcome open."""
    if 200 <= status < 300:
        return "accepted"
    if status in _WORTH_ANOTHER_TRY or 500 <= status < 600:
        return "transient"
    return "rejected" if 300 <= status < 500 else "unknown"


def refusal(
    response: Response,
    *,
    by: str,
    meaning: Meaning | None = None,
    code: int | None = None,
    retry_after: float | None = None,
) -> Verdict:
    """The verdict on an answer that is no acceptance; `retry_after` counts where the answer has no `Retry-After`."""
    judgement = (meaning.judgement if meaning else None) or judge_status(response.status)
    told = f"{by} answered HTTP {response.status}"
    if code is not None:
        told += f" with code {code}"
    if meaning:
        told += f": {meaning.sentence}"
    wait = seconds_to_wait(response.headers.get("retry-after"), now=answered_at(response)) or retry_after
    return Verdict(
        judgement=judgement,
        error=f"{told}.",
        status_code=response.status,
        retry_after=wait if judgement == "transient" else None,
        opt_out=meaning.opt_out if meaning else False,
        last_chance=meaning.last_chance if meaning else False,
    )


def answered_at(response: Response) -> datetime | None:
    """When the answer was given: by the clock that also wrote the dates in it, or else by ours."""
    return http_date(response.headers.get("date", "")) or response.at


def read_object(body: bytes) -> Mapping[str, Any]:
    """An answer's JSON object; empty for any other body."""
    try:
        value = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def read_id(value: object) -> str | None:
    """A provider's id of a message, or None where it is not a short word."""
    return value if isinstance(value, str) and _ID.fullmatch(value) else None
