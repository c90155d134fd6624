"""Where tenants' messages may go: what can be told from a URL or a host as it is written, before any name is looked up."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from pillarbox.errors import InvalidInput
from pillarbox.outbound.addresses import forbidden

_LONGEST = 2000
_LONGEST_HOST = 253
_UNPRIVILEGED = 1024
_LAST_PORT = 65535
_DEFAULT_PORTS = {"https": 443, "http": 80, "smtp": 25}
_WEB_PORTS = frozenset({80, 443})
_MAIL_PORTS = frozenset({25, 465, 587})

_STRANGE = re.compile(r"[^!-~]|[\\#]")
_PARTS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?]*)")
_AUTHORITY = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::(.*))?")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
# What ends like this is taken for a number by resolvers: 2130706433, 0x7f.1, 127.1.
_NUMERIC = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")


class Blocked(Exception):
    """The destination is not allowed, now or later; the text says why and may be shown to anyone."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host and port, in the one spelling by which origins are compared."""

    scheme: str
    host: str
    port: int
    address: IPv4Address | IPv6Address | None = None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == _DEFAULT_PORTS[self.scheme] else f":{self.port}")


def check_url(field: str, url: str, *, trusted: frozenset[str]) -> None:
    """Refuse a URL that nothing may be sent to."""
    try:
        judge_url(url, trusted=trusted)
    except ValueError as fault:
        raise InvalidInput(field, str(fault)) from None


def check_host(field: str, host: str, port: int, *, trusted: frozenset[str]) -> None:
    """Refuse a mail server that nothing may be sent to."""
    try:
        origin = smtp_origin(host, port)
        _judge(origin, is_trusted=is_trusted(origin, trusted), ports=_MAIL_PORTS)
    except ValueError as fault:
        raise InvalidInput(field, str(fault)) from None


def check_origin(field: str, origin: str) -> None:
    """Refuse what is no `scheme://host[:port]` that an operator can trust."""
    try:
        found = _split(origin)
        if (parts := _PARTS.match(origin)) and parts.end() != len(origin):
            raise ValueError("must be scheme://host[:port] and no more.")
        _judge(found, is_trusted=True, ports=_MAIL_PORTS if found.scheme == "smtp" else _WEB_PORTS)
    except ValueError as fault:
        raise InvalidInput(field, str(fault)) from None


@lru_cache(maxsize=4096)
def judge_url(url: str, *, trusted: frozenset[str]) -> bool:
    """Whether the operator trusts the URL's origin; a ValueError says why nothing may be sent to it."""
    origin = _split(url)
    if origin.scheme not in ("http", "https"):
        raise ValueError("must begin with https://.")
    trust = is_trusted(origin, trusted)
    if origin.scheme == "http" and not trust:
        raise ValueError("must begin with https://, unless its origin is a trusted destination.")
    _judge(origin, is_trusted=trust, ports=_WEB_PORTS)
    return trust


def origin_of(url: str) -> str:
    """The canonical `scheme://host[:port]` of a URL; a ValueError says what is wrong with it."""
    return str(_split(url))


def is_trusted(origin: Origin, trusted: frozenset[str]) -> bool:
    """Whether an origin is among those the operator trusts, however they are spelled."""
    return bool(trusted) and str(origin) in _canonical(trusted)


def smtp_origin(host: str, port: int) -> Origin:
    """The origin of a mail server; a ValueError says what is wrong with its host."""
    return _origin("smtp", f"[{host}]" if ":" in host else host, port)


@lru_cache(maxsize=256)
def _canonical(trusted: frozenset[str]) -> frozenset[str]:
    found = set()
    for entry in trusted:
        try:
            found.add(origin_of(entry))
        except ValueError:
            continue
    return frozenset(found)


def _judge(origin: Origin, *, is_trusted: bool, ports: frozenset[int]) -> None:
    if origin.port < _UNPRIVILEGED and origin.port not in ports:
        allowed = ", ".join(map(str, sorted(ports)))
        raise ValueError(f"must have one of the ports {allowed}, or one from {_UNPRIVILEGED}.")
    if origin.address is not None and (reason := forbidden(origin.address, trusted=is_trusted)):
        raise ValueError(f"must not lead to {reason}.")


def _split(url: str) -> Origin:
    if len(url) > _LONGEST:
        raise ValueError(f"must have at most {_LONGEST} characters.")
    if _STRANGE.search(url):
        raise ValueError("must be a URL of ASCII characters without blanks, backslashes or a fragment.")
    if not (parts := _PARTS.match(url)):
        raise ValueError("must be an absolute URL, such as https://example.com/hook.")
    scheme, authority = parts[1].lower(), parts[2]
    if scheme not in _DEFAULT_PORTS:
        raise ValueError(f"must begin with one of {', '.join(f'{known}://' for known in _DEFAULT_PORTS)}.")
    if "@" in authority:
        raise ValueError("must not contain a user name or password.")
    if not (place := _AUTHORITY.fullmatch(authority)):
        raise ValueError("must have a valid host.")
    host, port = place[1], place[2]
    if port is not None and not _PORT.fullmatch(port):
        raise ValueError("must have a port from 1 to 65535, or none.")
    return _origin(scheme, host, _DEFAULT_PORTS[scheme] if port is None else int(port))


def _origin(scheme: str, host: str, port: int) -> Origin:
    if not 1 <= port <= _LAST_PORT:
        raise ValueError("must have a port from 1 to 65535.")
    host = host.lower()
    if host.startswith("[") or _NUMERIC.fullmatch(host):
        address = _address(host)
        return Origin(scheme, str(address), port, address)
    if len(host) > _LONGEST_HOST or not all(_LABEL.fullmatch(label) for label in host.split(".")):
        raise ValueError("must have a valid host.")
    return Origin(scheme, host, port)


def _address(host: str) -> IPv4Address | IPv6Address:
    """The address a host is; only the common spelling is taken, so that nobody reads another one out of it."""
    try:
        if not host.startswith("["):
            return IPv4Address(host)
        if host.endswith("]") and "%" not in host:
            return IPv6Address(host[1:-1])
    except AddressValueError:
        pass
    raise ValueError("must have a valid host: a name, four decimal numbers, or an IPv6 address in brackets.")
