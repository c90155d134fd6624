"""The inbox of another process, over the v1 wire protocol.

Every call may be repeated, so a lost connection, a late answer or a 5xx is tried again within the timeout. For try-begin
that takes more than the protocol has: a lease that was given in an answer which got lost would keep its own caller waiting.
So the call carries a `Pillarbox-Lease-Id`, which Pillarbox takes as the lease's name and answers alike when it comes again. A
service that ignores the header answers `Busy` to the repeated call, and the lease that nobody knows of ends by itself.
"""

from __future__ import annotations

import asyncio
import uuid
from random import Random
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import aiohttp
import msgspec
from yarl import URL

from pillarbox.errors import InvalidInput, Unavailable
from pillarbox.inbox.header import LEASE_ID
from pillarbox.inbox.model import Begun, LeaseAnswer, Sighting, result_text

T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_LARGEST_ANSWER = 1024 * 1024
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})


class RemoteInbox:
    """An `InboxStore` behind `url`, as in `http://inbox.internal:8025`; connections are kept and used again.

    `timeout` is how many seconds one call may take in all, its repetitions included; then it raises `Unavailable`.
    """

    def __init__(self, url: str, *, key: str | None = None, timeout: float = 10.0, connections: int = 100) -> None:
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise InvalidInput("url", "must begin with http:// or https:// and name a host.")
        self._base = url.rstrip("/") + "/v1/inbox"
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._timeout = timeout
        self._connections = connections
        self._random = Random()  # noqa: S311 - spreads retries, guards nothing
        self._session: aiohttp.ClientSession | None = None

    async def try_begin(
        self,
        key: str,
        *,
        lease: float,
        owner: str | None = None,
        fingerprint: str | None = None,
        lease_id: str | None = None,
    ) -> Begun:
        asked = {"key": key, "leaseSeconds": lease, "owner": owner, "fingerprint": fingerprint}
        given = {name: value for name, value in asked.items() if value is not None}
        return await self._post("try-begin", given, Begun, {LEASE_ID: lease_id or uuid.uuid4().hex})

    async def extend(self, key: str, lease_id: str, *, lease: float) -> LeaseAnswer:
        return await self._post("extend", {"key": key, "leaseId": lease_id, "leaseSeconds": lease}, LeaseAnswer)

    async def mark_processed(self, key: str, lease_id: str, *, result: Any = None) -> LeaseAnswer:
        asked: dict[str, object] = {"key": key, "leaseId": lease_id}
        if (text := result_text(result)) is not None:
            asked["result"] = msgspec.Raw(text.encode())
        return await self._post("mark-processed", asked, LeaseAnswer)

    async def release(self, key: str, lease_id: str) -> LeaseAnswer:
        return await self._post("release", {"key": key, "leaseId": lease_id}, LeaseAnswer)

    async def look(self, key: str) -> Sighting:
        # A key that is nothing but dots would be taken for a step in the path.
        named = key.replace(".", "%2E") if key in (".", "..") else quote(key, safe="")
        return await self._call("GET", f"/{named}", None, Sighting, {})

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _post(self, verb: str, asked: dict[str, Any], kind: type[T], headers: dict[str, str] | None = None) -> T:
        body = msgspec.json.encode(asked)
        return await self._call("POST", f"/{verb}", body, kind, {"Content-Type": "application/json", **(headers or {})})

    async def _call(self, method: str, path: str, body: bytes | None, kind: type[T], headers: dict[str, str]) -> T:
        url = URL(self._base + path, encoded=True)
        reason, pause = "it did not answer in time", _FIRST_PAUSE
        try:
            async with asyncio.timeout(self._timeout):
                while True:
                    try:
                        # Half of the time for one try, so that a connection which died in silence leaves time for another.
                        async with asyncio.timeout(self._timeout / 2):
                            status, answer = await self._exchange(method, url, body, headers)
                    except (aiohttp.ClientError, OSError) as error:
                        reason = f"{type(error).__name__} on the way"
                    else:
                        if status not in _AGAIN:
                            return _read(status, answer, kind)
                        reason = f"it answered {status}"
                    await asyncio.sleep(pause * self._random.uniform(0.5, 1.0))
                    pause = min(pause * 2, _LONGEST_PAUSE)
        except TimeoutError:
            raise Unavailable(f"The inbox service cannot be asked: {reason}; check that it runs.") from None

    async def _exchange(self, method: str, url: URL, body: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        async with self._connected().request(
            method, url, data=body, headers={**self._headers, **headers}, allow_redirects=False
        ) as response:
            answer = await response.content.read(_LARGEST_ANSWER)
            while not response.content.at_eof() and len(answer) < _LARGEST_ANSWER:
                answer += await response.content.read(_LARGEST_ANSWER - len(answer))
            return response.status, answer

    def _connected(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._connections, keepalive_timeout=25.0),
                cookie_jar=aiohttp.DummyCookieJar(),
                # Ours alone: its own timer takes a cancellation that comes at the same moment for itself.
                timeout=aiohttp.ClientTimeout(total=None),
                auto_decompress=False,
                trust_env=False,
            )
        return self._session


class _FieldError(msgspec.Struct):
    field: str = ""
    detail: str = ""


class _Problem(msgspec.Struct):
    errors: list[_FieldError] = []


def _read(status: int, answer: bytes, kind: type[T]) -> T:
    try:
        if status == 200:
            return msgspec.json.decode(answer, type=kind)
        if status == 422 and (errors := msgspec.json.decode(answer, type=_Problem).errors):
            raise InvalidInput(errors[0].field, errors[0].detail)
    except msgspec.DecodeError:
        raise Unavailable("The inbox service answers in another language; check its address and version.") from None
    if status in (401, 403):
        raise Unavailable("The inbox service refuses the key; give it one that it knows.")
    raise Unavailable(f"The inbox service answered {status}; check its address and version.")
