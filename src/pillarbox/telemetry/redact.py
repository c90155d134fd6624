"""The one place that decides what may be shown of addresses, secrets and errors."""

from __future__ import annotations

import re

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
    r"(?:\"[^\"\s]{0,64}\"|(?<![\w.!#$%&'*+=?^`{|}~-])[\w.!#$%&'*+=?^`{|}~-]+)@(\w[\w-]*(?:\.[\w-]+)*)"
)
_PHONE = re.compile(r"\+[1-9]\d{2,10}(\d{4})\b")
_LONG = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{24,}={0,2}")
_HEX = re.compile(r"[0-9a-f]{32,}|[0-9A-F]{32,}")
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


def brief(error: BaseException) -> str:
    """Name an error and say its first sentence, without any body it may quote."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    name = type(error).__name__
    said = scrub(re.split(r"[\n\r{<]", _said(error), maxsplit=1)[0]).strip(" :")
    sentence = f"{name}: {said}" if said else name
    return sentence if len(sentence) <= _BRIEF_LENGTH else sentence[: _BRIEF_LENGTH - 3] + "..."


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
