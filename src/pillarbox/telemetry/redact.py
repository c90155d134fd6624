"""The one place that decides what may be shown of addresses, secrets and errors."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable
from urllib.parse import unquote

HIDDEN = "***"

_BRIEF_LENGTH = 200
_QUERY = re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]{0,20}://[^\s?#\"'<>]*)(?:[?#][^\s\"'<>]*)?")
_USERINFO = re.compile(r"(://)(?:[^\s/?#]*|[^\s/:@?#]{1,256}:(?!\d{1,5}[/?#])[^\s@]{1,256})@")
_AUTHORIZATION = re.compile(r"(?i)\b(authorization[\"']?\s*[:=]\s*[\"']?)(?:(?:bearer|basic|vapid)\s+)*[^\s\"',;]+")
_BEARER = re.compile(r"(?i)\b((?:bearer\s+)+)(?!(?:token|key|auth(?:entication)?)(?:\s|$))[^\s\"',;]+")
_NAMED = re.compile(
    r"(?i)((?:password|passwd|secret)[\"']?\s*[:=]\s*[\"']?)[^\s\"',;&]+"
    r"|((?:api[-_]?key|token|signature)[\"']?\s*[:=]\s*[\"']?)[^\s\"',;&]{8,}"
)
_SIGNING = re.compile(r"\bwh(?:sec|sk)_[A-Za-z0-9+/=_-]+")
_BOT = re.compile(r"\b(bot)?\d{6,}:[A-Za-z0-9_-]{20,}")
_MAILBOX = re.compile(
    r"(?:\"[^\"\s]{0,64}\"|(?<![\w.!#$%&'*+=?^`{|}~@-])[\w.!#$%&'*+=?^`{|}~@-]+)@(\w[\w-]*(?:\.[\w-]+)*)"
)
_PHONE = re.compile(r"\+[1-9]\d{2,10}(\d{4})\b")
_LONG = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{24,}={0,2}")
_HEX = re.compile(r"[0-9a-f]{32,}|[0-9A-F]{32,}")
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")
_NO_DIGIT = re.compile(r"[^0-9]")
_MOST_DISGUISES = 3
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{6,}={0,2}")
_URL_SAFE = str.maketrans("-_", "+/")
_MEANS_IT = 4
_NUMBER_LENGTH = 7
_STANDS_OUT = 8
_TWILIO_SID = re.compile(r"[A-Z]{2}[0-9a-f]{32}")


def mask(address: str) -> str:
    """Show of a mailbox its domain, of a number its last four digits, and of anything else nothing."""
    mailbox, at, domain = address.strip().rpartition("@")
    if at and mailbox and "://" not in mailbox:
        return f"{HIDDEN}@{domain.rstrip('>').lower()}"
    digits = re.sub(r"[\s().-]", "", address)
    return HIDDEN + digits[-4:] if re.fullmatch(r"\+?[0-9]{7,15}", digits) else HIDDEN


def scrub(text: str) -> str:
    """Take secrets, query strings and people's addresses out of a text."""
    text = _USERINFO.sub(r"\1", text)
    text = _QUERY.sub(r"\1", text)
    text = _AUTHORIZATION.sub(rf"\1{HIDDEN}", text)
    text = _BEARER.sub(rf"\1{HIDDEN}", text)
    text = _NAMED.sub(lambda match: f"{match[1] or match[2]}{HIDDEN}", text)
    text = _SIGNING.sub(HIDDEN, text)
    text = _BOT.sub(lambda match: f"{match[1] or ''}{HIDDEN}", text)
    text = _MAILBOX.sub(rf"{HIDDEN}@\1", text)
    text = _PHONE.sub(rf"{HIDDEN}\1", text)
    return _LONG.sub(lambda match: HIDDEN if _looks_secret(match[0]) else match[0], text)


def hide(text: str, *, secrets: Iterable[str], addresses: Iterable[str]) -> str:
    """Take these secrets and addresses out of a foreign text, as they are commonly written, and all that `scrub` does."""
    hidden, people = sorted(secrets, key=len, reverse=True), sorted(addresses, key=len, reverse=True)
    text = _plainly_written(text)
    text = _BASE64.sub(lambda run: HIDDEN if _tells(run[0], (*hidden, *people)) else run[0], text)
    for secret in hidden:
        text = _without(text, secret, HIDDEN)
    for address in people:
        text = _without(text, address, mask(address))
        text = _without_number(text, address)
        if len(mailbox := address.rpartition("@")[0]) >= _MEANS_IT - 1:
            text = _without(text, mailbox, HIDDEN)
    return scrub(text)


def brief(error: BaseException) -> str:
    """Name an error and say its first sentence, without any body it may quote."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    name = type(error).__name__
    said = scrub(re.split(r"[\n\r{<]", _said(error), maxsplit=1)[0]).strip(" :")
    sentence = f"{name}: {said}" if said else name
    return sentence if len(sentence) <= _BRIEF_LENGTH else sentence[: _BRIEF_LENGTH - 3] + "..."


def _plainly_written(text: str) -> str:
    """A text without the disguises of JSON, HTML and URLs, under which nothing would be found in it."""
    for _ in range(_MOST_DISGUISES):
        bare = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text).replace("\\/", "/")
        bare = unquote(html.unescape(bare))
        if bare == text:
            break
        text = bare
    return text


def _tells(run: str, known: Iterable[str]) -> bool:
    """Whether something known stands in a run of base64, whole or without its domain."""
    encoded = run.rstrip("=").translate(_URL_SAFE)
    said = base64.b64decode(encoded[: len(encoded) - (len(encoded) % 4 == 1)] + "==").decode("utf-8", "ignore").lower()
    return any(part in said for each in known if len(part := (each.rpartition("@")[0] or each).lower()) >= _MEANS_IT)


def _without(text: str, part: str, shown: str) -> str:
    """A short part is taken out only where it stands alone: else it would be found inside of other words."""
    if not part or part.lower() not in text.lower():
        return text
    pattern = re.escape(part) if len(part) >= _STANDS_OUT else rf"(?<!\w){re.escape(part)}(?!\w)"
    return re.sub(pattern, lambda _: shown, text, flags=re.IGNORECASE)


def _without_number(text: str, address: str) -> str:
    """A number as people write it: with or without its country, with spaces, dots, dashes and brackets."""
    digits = _NO_DIGIT.sub("", address)
    if len(digits) < _NUMBER_LENGTH or digits[-_NUMBER_LENGTH:] not in _NO_DIGIT.sub("", text):
        return text
    gap = r"[\s().+/-]{0,3}"
    country = "".join(f"(?:{digit}{gap})?" for digit in digits[:-_NUMBER_LENGTH])
    return re.sub(rf"\+?{country}{gap.join(digits[-_NUMBER_LENGTH:])}", lambda _: mask(digits), text)


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return ""


def _looks_secret(run: str) -> bool:
    """Tell random runs from ids (UUIDs, Twilio's SIDs), paths and long words."""
    if _HEX.fullmatch(run):
        return True
    mixed = all(re.search(letters, run) for letters in ("[a-z]", "[A-Z]", "[0-9]"))
    return mixed and max(map(len, run.split("/"))) >= 16 and not _TWILIO_SID.fullmatch(run)
