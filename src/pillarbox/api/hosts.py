"""Which `Host` a request may name: a page elsewhere must not reach us through a name that it controls."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

from pillarbox.api.problems import Problem

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_WITH_PORT = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|[^\[\]:]+)(?::[0-9]{1,5})?")


class Hosts:
    """The names this server answers to, on any port: the host of the address it gives to others is one of them."""

    def __init__(self, further: Iterable[str], *, public_url: str | None = None) -> None:
        known = (*LOOPBACK, *further, *_host_of(public_url))
        self._known = {_bracketed(host.lower()).encode() for host in known}

    def check(self, host: bytes | None, server: object) -> None:
        """Refuse a foreign host; the address a connection came in by is never foreign."""
        named = _WITH_PORT.fullmatch(host or b"")
        if named is None or not (named[1].lower() in self._known or named[1].lower() == _own_address(server)):
            raise Problem(421, "misdirected", "This server does not answer to that Host; see http.allowed_hosts.")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _host_of(url: str | None) -> list[str]:
    try:
        host = urlsplit(url or "").hostname
    except ValueError:
        return []
    return [host] if host else []


def _own_address(server: object) -> bytes | None:
    """A connection's local address: one that listens on all of them has more than can be listed."""
    if not isinstance(server, tuple | list) or not server or not isinstance(server[0], str):
        return None
    try:
        ip_address(server[0])
    except ValueError:
        return None
    return _bracketed(server[0].lower()).encode()


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") and host.count(":") > 1 else host
