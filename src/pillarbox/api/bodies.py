"""Reading what a caller sent: bounded in size and time, JSON, and of the right shape."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Never, TypeVar

import msgspec
from starlette.types import Receive

from pillarbox.api.faults import fault_of, mended
from pillarbox.api.problems import CLOSE, Problem, invalid
from pillarbox.text import printable

T = TypeVar("T")

LARGEST_BODY = 16 * 1024 * 1024
SECONDS_TO_SEND = 60.0
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_UNPAIRED = re.compile("[\ud800-\udfff]")


class Gone(Exception):
    """The caller hung up before the request was complete."""


async def read_body(receive: Receive, content_length: int, *, most: int = LARGEST_BODY) -> bytes:
    """The whole body; more than `most` bytes are refused before they are read, or as soon as they have come."""
    if content_length > most:
        raise too_large(most)
    try:
        async with asyncio.timeout(SECONDS_TO_SEND):
            message = await receive()
            if message["type"] == "http.request" and not message.get("more_body", False):
                body: bytes = message.get("body", b"")
                _check_size(body, most)
                return body
            return await _read_on(receive, dict(message), most)
    except TimeoutError:
        detail = f"The request did not arrive within {SECONDS_TO_SEND:g} seconds; send it again."
        raise Problem(408, "timeout", detail, headers=[CLOSE]) from None


async def _read_on(receive: Receive, message: dict[str, Any], most: int) -> bytes:
    body = bytearray()
    while True:
        if message["type"] == "http.disconnect":
            raise Gone
        body += message.get("body", b"")
        _check_size(body, most)
        if not message.get("more_body", False):
            return bytes(body)
        message = dict(await receive())


def _check_size(body: bytes | bytearray, most: int) -> None:
    if len(body) > most:
        raise too_large(most)


def too_large(most: int) -> Problem:
    shown = f"{most // 1024**2} MiB" if most >= 1024**2 else f"{most // 1024} KiB"
    return Problem(413, "too-large", f"The request is too large; {shown} is the most that is taken.", headers=[CLOSE])


def not_json() -> Problem:
    return Problem(400, "not-json", "The body is not JSON in UTF-8, or holds a number or nesting beyond any use.")


_decoder: Callable[[Any], msgspec.json.Decoder[Any]] = lru_cache(maxsize=256)(msgspec.json.Decoder)


def decode_body(body: bytes, kind: type[T]) -> T:
    """The body as a struct: 400 when it is not JSON, 422 with the field at fault when it is another shape."""
    try:
        value: T = _decoder(kind).decode(body)
        return value
    except msgspec.ValidationError:
        return _decode_slowly(body, kind)
    except (ValueError, RecursionError):
        _refuse(body)


def _decode_slowly(body: bytes, kind: type[T]) -> T:
    """Once more, now for the caller's sake: is it JSON at all, which field is at fault, is 3.0 meant as 3?"""
    try:
        value = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        _refuse(body)
    while True:
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            if not mended(value, error):
                raise invalid(*fault_of(error, kind)) from None
        except RecursionError:
            raise not_json() from None


def _refuse(body: bytes) -> Never:
    """Unpaired surrogates are well-formed JSON that no database stores: they get their field named."""
    if _SURROGATE.search(body):
        try:
            value = json.loads(body, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            raise not_json() from None
        for path, text in _texts(value):
            if _UNPAIRED.search(text):
                raise invalid(path, "must not contain NUL or unpaired surrogates.")
    raise not_json()


def _refuse_constant(name: str) -> Never:
    raise ValueError(name)


def _texts(value: object) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    waiting: list[tuple[str, object]] = [("", value)]
    while waiting:
        path, item = waiting.pop()
        if isinstance(item, str):
            found.append((path, item))
        elif isinstance(item, dict):
            for name, inner in item.items():
                inside = f"{path}.{printable(name)}".lstrip(".")
                found.append((inside, name))
                waiting.append((inside, inner))
        elif isinstance(item, list):
            waiting += ((f"{path}.{index}".lstrip("."), inner) for index, inner in enumerate(item))
    return found
