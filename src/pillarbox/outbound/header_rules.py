"""Which headers callers may add to an email or a webhook."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pillarbox.errors import InvalidInput
from pillarbox.text import check_name, printable

MOST_HEADERS = 64
LARGEST_HEADER = 8 * 1024

_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_OF_HTTP = re.compile(
    r"host|content-length|transfer-encoding|connection|keep-alive|proxy-.*|te|trailer|upgrade|http2-settings|expect"
    r"|webhook-.*"
)
_OF_EMAIL = re.compile(
    r"from|to|cc|bcc|sender|reply-to|subject|date|message-id|return-path|mime-.*|content-.*|list-unsubscribe.*"
    r"|received|resent-.*|dkim-signature|x-pillarbox-.*"
)


def check_webhook_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers that neither change how the request is framed nor speak in our name."""
    return _checked(headers, _OF_HTTP)


def check_email_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers that neither readdress the email nor change how it is put together."""
    return _checked(headers, _OF_EMAIL)


def _checked(headers: Mapping[str, str], ours: re.Pattern[str]) -> dict[str, str]:
    if len(headers) > MOST_HEADERS:
        raise InvalidInput("headers", f"must be at most {MOST_HEADERS}.")
    seen: set[str] = set()
    for name, value in headers.items():
        field = f"headers.{printable(name)}"
        if not _NAME.fullmatch(name):
            raise InvalidInput(field, "is not a name that a header may have.")
        if ours.fullmatch(name.lower()):
            raise InvalidInput(field, "is set by Pillarbox and may not be given.")
        if name.lower() in seen:
            raise InvalidInput(field, "is given twice.")
        seen.add(name.lower())
        if value:
            check_name(field, value, most=LARGEST_HEADER)
        if len(name) + len(value.encode()) > LARGEST_HEADER:
            raise InvalidInput(field, f"must have at most {LARGEST_HEADER} bytes.")
    return dict(headers)
