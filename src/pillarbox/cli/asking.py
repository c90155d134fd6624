"""Asking what an HTTP endpoint answers, without HTTP: the same checks, the same answer, no key."""

from __future__ import annotations

import asyncio
import getpass
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Never, cast

from pillarbox.cli.failures import failure_of_status
from pillarbox.errors import InvalidInput

if TYPE_CHECKING:
    from pillarbox.api.app import Api
    from pillarbox.api.call import Endpoint
    from pillarbox.api.head import Head
    from pillarbox.box import Pillarbox
    from pillarbox.cli.options import Options

_ON_WHAT_IS_THERE = ("/retry", "/cancel", "/expire", "/close", "/actions", "/forget")


def ask(
    options: Options,
    method: str,
    path: str,
    *,
    named: Mapping[str, str] | None = None,
    fields: Mapping[str, object] | None = None,
    idempotency_key: str | None = None,
) -> Any:
    """The JSON value an endpoint answers; `fields` are its body's or its query's, and None is one not given."""
    return asyncio.run(_ask(options, method, path, named or {}, fields or {}, idempotency_key))


def look(options: Options, *paths: str) -> list[Any]:
    """What several endpoints answer to GET, all asked at one opening of the database."""
    return asyncio.run(_look(options, paths))


async def _look(options: Options, paths: Sequence[str]) -> list[Any]:
    from pillarbox.api.head import Head

    async with options.open(make=False) as box:
        found = (_endpoint("GET", path) for path in paths)
        return [await _answer(box, each, Head(), {}, _read({}, each)) for each in found]


async def _ask(
    options: Options,
    method: str,
    path: str,
    named: Mapping[str, str],
    fields: Mapping[str, object],
    idempotency_key: str | None,
) -> Any:
    from pillarbox.api.head import Head

    endpoint = _endpoint(method, path)
    given = _read({name: value for name, value in fields.items() if value is not None}, endpoint)
    head = Head(idempotency_keys=() if idempotency_key is None else (idempotency_key.encode(),))
    async with options.open(make=_makes(endpoint)) as box:
        return await _answer(box, endpoint, head, named, given)


def _endpoint(method: str, path: str) -> Endpoint:
    from pillarbox.api.routes_v1 import V1

    return next(each for each in V1 if (each.method, each.path) == (method, path))


def _makes(endpoint: Endpoint) -> bool:
    """Whether it brings something new; all else needs what is there, and a database with it."""
    return endpoint.method in ("POST", "PUT") and not endpoint.path.endswith(_ON_WHAT_IS_THERE)


async def _answer(box: Pillarbox, endpoint: Endpoint, head: Head, named: Mapping[str, str], given: object) -> Any:
    import msgspec

    from pillarbox.api.call import Call
    from pillarbox.api.office import Office
    from pillarbox.api.problems import Problem
    from pillarbox.audit import acting_as

    # All that these endpoints need of the API; the pages, which take long to import, are not among it.
    office = cast("Api", Office(box, admin_key=None))
    call = Call(office, head, {}, _nothing, named, body=given, query=given)
    try:
        with acting_as(operator()):
            answer = await endpoint.act(call)
    except Problem as problem:
        raise failure_of_status(problem.status, problem.detail) from problem
    return {} if answer.body is None else msgspec.json.decode(answer.body)


def operator() -> str:
    """Who is at the command line, as the audit names them."""
    try:
        return f"cli:{getpass.getuser()}"
    except (OSError, KeyError):
        return f"cli:{os.getuid()}"


def _read(fields: dict[str, object], endpoint: Endpoint) -> object:
    import msgspec

    from pillarbox.api.faults import fault_of

    kind = endpoint.body or endpoint.query
    if kind is None:
        return None
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(*fault_of(error, kind)) from None


async def _nothing() -> Never:
    raise AssertionError("the command line has no request to read from")
