"""The ASGI application: each request through the same checks, in the same order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from starlette.types import Receive, Scope, Send

from pillarbox.api.answers import Answer, encode
from pillarbox.api.auth import Caller
from pillarbox.api.bodies import Gone, decode_body, read_body
from pillarbox.api.call import Call, Endpoint, Nothing, read_query
from pillarbox.api.head import read_head
from pillarbox.api.hosts import Hosts
from pillarbox.api.office import Office
from pillarbox.api.openapi import describe
from pillarbox.api.problems import (
    CLOSE,
    Problem,
    for_admins,
    given_up,
    internal,
    no_such_path,
    problem_of,
    wrong_method,
)
from pillarbox.api.router import Router, segments_of
from pillarbox.api.routes import ENDPOINTS
from pillarbox.audit import acting_as
from pillarbox.dashboard.faults import fault_page
from pillarbox.dashboard.live import Watchers
from pillarbox.dashboard.logins import Logins
from pillarbox.dashboard.overview import Overview
from pillarbox.dashboard.pulse import Pulse
from pillarbox.errors import PillarboxError
from pillarbox.telemetry import logger

if TYPE_CHECKING:
    from pillarbox.box import Pillarbox

_log = logger(__name__)
_LINGER_SECONDS = 10.0
_UNKNOWN = "unknown"


class Api(Office):
    """Host, key and tenant, path, method, query, body; then the endpoint."""

    endpoints: tuple[Endpoint, ...] = ENDPOINTS

    def __init__(self, box: Pillarbox, *, admin_key: str | None, bound_hosts: Sequence[str] = ()) -> None:
        super().__init__(box, admin_key=admin_key)
        self.logins = Logins(self.gate, admin_key)
        self.pulse = Pulse(box)
        self.overview = Overview(box)
        self.watchers = Watchers()
        http = box.settings.http
        self._hosts = Hosts([*bound_hosts, *http.allowed_hosts], public_url=http.public_url)
        self._router = Router(self.endpoints)

    @cached_property
    def description(self) -> bytes:
        """The OpenAPI document."""
        return encode(describe(self.endpoints))

    def stop(self) -> None:
        """End what would not end by itself, so that the server below can."""
        self.stopping.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._respond(scope, receive, send)
        elif scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = [_UNKNOWN]
        try:
            answer = await self._answer(scope, receive, route)
        except Gone:
            return
        except asyncio.CancelledError:
            # The server below waits no longer, and would take a cancellation for a fault.
            if not self.stopping.is_set():
                raise
            answer = given_up().answer()
        except Exception as error:
            problem = _problem_of(error, route[0])
            answer = await fault_page(self, scope, receive, problem) or problem.answer()
        self.box.metrics.count_request(method=scope["method"], route=route[0], status=answer.status)
        with_body = scope["method"] != "HEAD"
        if CLOSE in answer.headers:
            await _send_and_linger(answer, receive, send, with_body=with_body)
        else:
            await answer.send(send, with_body=with_body)

    async def _answer(self, scope: Scope, receive: Receive, route: list[str]) -> Answer:
        head = read_head(scope["headers"])
        self._hosts.check(head.host, scope.get("server"))
        segments = segments_of(scope)
        caller: Caller | None = None
        if segments and segments[0] == "v1":
            caller = await self.gate.check(head.authorization, segments)
        found = self._router.find(segments, scope["method"])
        if found is None:
            raise no_such_path()
        place, named = found
        route[0] = place.path
        endpoint = place.endpoints.get(scope["method"])
        if endpoint is None:
            if scope["method"] == "OPTIONS":
                return Answer(204, None, headers=((b"allow", place.allow),))
            raise wrong_method(place.allow)
        by_tenant = caller is not None and caller.tenant is not None
        if endpoint.for_admins and by_tenant:
            raise for_admins()
        call = Call(self, head, scope, receive, named, by_tenant=by_tenant)
        if endpoint.query is not None:
            call.query = read_query(scope.get("query_string", b""), endpoint.query)
        if endpoint.body is not None:
            body = await read_body(receive, head.content_length)
            call.body = Nothing() if endpoint.body is Nothing and not body else decode_body(body, endpoint.body)
        with acting_as(None if caller is None else caller.who):
            return await endpoint.act(call)


def create_app(box: Pillarbox, *, admin_key: str | None, bound_hosts: Sequence[str] = ()) -> Api:
    """The HTTP API over a box, for any ASGI server; `bound_hosts` are further names it is reached by."""
    return Api(box, admin_key=admin_key, bound_hosts=bound_hosts)


def _problem_of(error: Exception, route: str) -> Problem:
    """What a request ended with; what nobody foresaw is a bug, and logged as one."""
    if isinstance(error, Problem):
        return error
    problem = problem_of(error) if isinstance(error, PillarboxError) else internal()
    if problem.status == 500:
        _log_bug(error, route)
    return problem


def _log_bug(error: Exception, route: str) -> None:
    """Only its kind: its text may quote what the caller sent."""
    _log.error("a request failed; this is a bug in Pillarbox", error=type(error).__name__, route=route)


async def _send_and_linger(answer: Answer, receive: Receive, send: Send, *, with_body: bool) -> None:
    """Answer at once, then take what still comes for a while: closing on a caller that sends would lose the answer."""
    await answer.send(send, with_body=with_body, more=True)
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            more = True
            while more:
                message = await receive()
                more = message["type"] == "http.request" and message.get("more_body", False)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
