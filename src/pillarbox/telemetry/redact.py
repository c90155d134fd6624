"""The one place that decides what may be shown of addresses, secrets and errors."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pillarbox.telemetry.disguises import LONGEST, TELLING, forms, plainly_written, spans, without_last_letters

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
_GAP = re.compile(r"[\s+]+")
_NO_DIGIT = re.compile(r"[^0-9]")
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


class Veil:
    """Takes certain secrets and addresses out of foreign texts, as they are commonly written, and all that `scrub` does."""

    def __init__(self, *, secrets: Iterable[str], addresses: Iterable[str]) -> None:
        known = {form for each in secrets for form in (each[:TELLING], plainly_written(each[:TELLING]))}
        self._secrets = sorted(known, key=len, reverse=True)
        self._people = sorted(addresses, key=len, reverse=True)
        self._forms = {form for each in (*known, *map(_person, self._people)) for form in forms(each)}
        longest = max(map(len, (*self._forms, *self._secrets, *self._people)), default=1)
        self._longest = min(LONGEST, longest)

    def over(self, text: str, *, is_cut: bool = False) -> str:
        """The text without them; of one that was cut also without the end in which one of them may have begun."""
        text = plainly_written(text)
        for address in self._people:
            text = _without(text, address, mask(address))
            text = _without_number(text, address)
            if len(mailbox := _person(address)) >= _MEANS_IT - 1:
                text = _without(text, mailbox, HIDDEN)
        length = len(without_last_letters(text, self._longest)) if is_cut else len(text)
        text = _without_forms(text, self._forms, length)
        for secret in self._secrets:
            text = _without(text, secret, HIDDEN)
        return scrub(text)


def brief(error: BaseException) -> str:
    """Name an error and say its first sentence, without any body it may quote."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    name = type(error).__name__
    said = scrub(re.split(r"[\n\r{<]", _said(error), maxsplit=1)[0]).strip(" :")
    sentence = f"{name}: {said}" if said else name
    return sentence if len(sentence) <= _BRIEF_LENGTH else sentence[: _BRIEF_LENGTH - 3] + "..."


def _person(address: str) -> str:
    """What of an address says who it is: a mailbox without its domain, the digits of a number."""
    mailbox, at, _ = address.rpartition("@")
    if at:
        return mailbox.rpartition("<")[2]
    digits = _NO_DIGIT.sub("", address)
    return digits if len(digits) >= _NUMBER_LENGTH and address.startswith("+") else address


def _without_forms(text: str, sought: Iterable[str], length: int) -> str:
    """The beginning of a text, where nothing of what is sought stands in it; what begins in it is taken out whole."""
    shown, at = "", 0
    for start, end in spans(text, sought):
        if start < length:
            shown, at = shown + text[at:start] + HIDDEN, end
    return shown + text[at : max(at, length)]


def _without(text: str, part: str, shown: str) -> str:
    """A short part is taken out only where it stands alone: else it would be found inside of other words."""
    sought = _unbroken(part)
    if not sought or len(sought) > len(text) or sought not in _unbroken(text):
        return text
    pattern = r"[\s+]*".join(map(re.escape, sought))
    if len(part) < _STANDS_OUT:
        pattern = rf"(?<!\w){pattern}(?!\w)"
    return re.sub(pattern, lambda _: shown, text, flags=re.IGNORECASE)


def _unbroken(text: str) -> str:
    """Without blanks and line ends, and without pluses, which are blanks in a form."""
    return _GAP.sub("", text.lower())


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
