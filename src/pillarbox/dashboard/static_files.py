"""Styles and scripts, under names that change with what they hold, so that browsers may keep them for ever."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from starlette.types import Send

from pillarbox.api.answers import Answer
from pillarbox.api.call import Call
from pillarbox.api.problems import no_such_path

_KINDS = {
    "css": b"text/css; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "svg": b"image/svg+xml",
}
_SERVED = (
    "pillarbox.css",
    "pillarbox.js",
    "keys.js",
    "plots.js",
    "tail.js",
    "icon.svg",
    "vendor/htmx.js",
    "vendor/htmx-sse.js",
    "vendor/uplot.js",
    "vendor/uplot.css",
)
_DIGITS = 12


@dataclass(frozen=True, slots=True)
class File(Answer):
    """What never changes under its name."""

    async def send(self, send: Send, *, with_body: bool = True, more: bool = False) -> None:
        body = self.body or b""
        headers = [
            (b"x-content-type-options", b"nosniff"),
            (b"cache-control", b"public, max-age=31536000, immutable"),
            (b"content-type", self.media_type),
            (b"content-length", b"%d" % len(body)),
        ]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": body if with_body else b"", "more_body": more})


async def serve(call: Call) -> Answer:
    found = _by_name().get(call.path["name"])
    if found is None:
        raise no_such_path()
    return found


def address_of(name: str) -> str:
    """Where a file is served, as in `pillarbox.css`."""
    return _addresses()[name]


@cache
def _by_name() -> Mapping[str, File]:
    folder = files("pillarbox.dashboard") / "static"
    return {
        address_of(name).rpartition("/")[2]: File(200, (folder / name).read_bytes(), _KINDS[name.rpartition(".")[2]])
        for name in _SERVED
    }


@cache
def _addresses() -> Mapping[str, str]:
    folder = files("pillarbox.dashboard") / "static"
    return {name: _address(name, (folder / name).read_bytes()) for name in _SERVED}


def _address(name: str, content: bytes) -> str:
    stem, _, kind = name.rpartition("/")[2].rpartition(".")
    return f"/static/{stem}-{hashlib.sha256(content).hexdigest()[:_DIGITS]}.{kind}"
