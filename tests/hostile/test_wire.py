"""Hundreds of broken conversations over a real socket: each comes to an end, and the next caller is served."""

import asyncio
import re

import apsw
import pytest

from pillarbox.box import sqlite_path
from tests.api.client import ADMIN_KEY
from tests.api.test_server import AUTH, served, talk
from tests.hostile.corpus.texts import CANARY
from tests.hostile.corpus.wire import wire_attacks
from tests.hostile.stand import SECONDS_TO_ANSWER

pytestmark = pytest.mark.long

SEED = 20260101
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


async def converse(port: int, said: bytes) -> bytes:
    """Say everything, hang up half-way, and hear all that comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(SECONDS_TO_ANSWER):
        try:
            writer.write(said)
            writer.write_eof()
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()


async def test_broken_conversations_end_and_change_nothing(sqlite_url: str) -> None:
    async with served(sqlite_url) as port:
        heard_400 = 0
        for said in wire_attacks(AUTH.encode(), SEED):
            heard = await converse(port, said)
            statuses = [int(status) for status in _STATUS.findall(heard)]
            assert all(status < 500 for status in statuses), (said[:300], heard[:300])
            assert 202 not in statuses, said[:300]
            assert CANARY.encode() not in heard, said[:300]
            assert ADMIN_KEY.encode() not in heard, said[:300]
            heard_400 += 400 in statuses
        assert heard_400 > 100
        assert (await talk(port, f"GET /readyz HTTP/1.1\r\n{AUTH}\r\n".encode()))[0] == 200
        with apsw.Connection(sqlite_path(sqlite_url) or "") as watcher:
            assert list(watcher.execute("SELECT count(*) FROM inbound_queue")) == [(0,)]


async def test_a_request_hidden_in_the_body_of_another_is_never_answered(sqlite_url: str) -> None:
    hidden = f"GET /healthz HTTP/1.1\r\n{AUTH}\r\n".encode()
    async with served(sqlite_url) as port:
        for framing in (
            b"Content-Length: 5\r\nTransfer-Encoding: chunked",
            b"Transfer-Encoding: chunked\r\nContent-Length: 5",
            b"Content-Length: 5\r\nContent-Length: 500",
            b"Transfer-Encoding: \x0bchunked",
            b"Transfer-Encoding : chunked",
        ):
            head = f"POST /v1/inbound HTTP/1.1\r\n{AUTH}".encode() + framing + b"\r\n\r\n"
            heard = await converse(port, head + b"0\r\n\r\n" + hidden)
            assert b'"status":"ok"' not in heard, framing
            assert 400 in map(int, _STATUS.findall(heard)), (framing, heard)
