"""Where our own pages are: the address a browser has for us, which a proxy before us may have changed."""

from __future__ import annotations

from urllib.parse import urlsplit

from pillarbox.api.call import Call
from pillarbox.api.problems import Problem

_DEFAULT_PORTS = {"http": 80, "https": 443}


def refuse_foreign_origin(call: Call) -> None:
    """A page of another site may not post our forms."""
    if call.head.origin is not None and call.head.origin not in _own_origins(call):
        raise Problem(403, "foreign-origin", "This form was sent from a page of another site; see http.public_url.")


def is_encrypted(call: Call) -> bool:
    """Whether the browser came by https, as it says itself; where it does not say, as the settings have it."""
    if call.head.origin is not None:
        return call.head.origin.startswith(b"https://")
    return call.scope.get("scheme") == "https" or _public_origin(call).startswith(b"https://")


def base_of(call: Call) -> str:
    """The address to give to people who are to come back."""
    given = call.head.origin or _public_origin(call)
    return (given or _scheme(call) + b"://" + _host(call)).decode("latin-1")


def _own_origins(call: Call) -> set[bytes]:
    """The public address, and the one in the request; where both are one host, the public address says by which scheme."""
    public, host = _public_origin(call), _host(call)
    if public.partition(b"://")[2] == host:
        return {public}
    return {b"http://" + host, b"https://" + host, public} - {b""}


def _public_origin(call: Call) -> bytes:
    """The origin of `http.public_url` as browsers spell it, or nothing."""
    try:
        url = urlsplit(call.box.settings.http.public_url or "")
        host, port = (url.hostname or "").encode("idna").decode(), url.port
    except ValueError:
        return b""
    if not host:
        return b""
    named = f"[{host}]" if ":" in host else host
    shown = "" if port in (None, _DEFAULT_PORTS.get(url.scheme)) else f":{port}"
    return f"{url.scheme}://{named}{shown}".encode()


def _host(call: Call) -> bytes:
    return (call.head.host or b"").lower()


def _scheme(call: Call) -> bytes:
    return str(call.scope.get("scheme", "http")).encode()
