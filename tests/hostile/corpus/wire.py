"""What a socket may carry instead of HTTP/1.1, or beside it."""

import random
from collections.abc import Iterator

from tests.hostile.corpus.texts import CANARY

REQUEST_LINES: tuple[bytes, ...] = (
    b"",
    b"\r\n",
    b"GET",
    b"GET /",
    b"GET  / HTTP/1.1",
    b"GET / HTTP/1.1 x",
    b"GET / HTTP/0.9",
    b"GET / HTTP/2.0",
    b"GET / HTTP/1.1\x00",
    b"GET /\x00 HTTP/1.1",
    b"GET /\xff\xfe HTTP/1.1",
    b"GET /\x1b[31m HTTP/1.1",
    b"GET \t/ HTTP/1.1",
    b"GET http://evil.example/v1/keys HTTP/1.1",
    b"GET //evil.example/v1/keys HTTP/1.1",
    b"GET * HTTP/1.1",
    b"OPTIONS * HTTP/1.1",
    b"CONNECT 127.0.0.1:22 HTTP/1.1",
    b"PRI * HTTP/2.0",
    b"get / HTTP/1.1",
    b"BREW / HTTP/1.1",
    b"G\x00T / HTTP/1.1",
    b"GET /" + b"%00" * 2000 + b" HTTP/1.1",
    b"GET /?" + b"a" * 40_000 + b" HTTP/1.1",
    b"GET / HTTP/1." + b"1" * 50,
    b"HTTP/1.1 200 OK",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"SSH-2.0-x",
    b"EHLO " + CANARY.encode(),
    b"*1\r\n$4\r\nPING",
    b"\x00" * 100,
    b"\xff" * 100,
)

HEADER_LINES: tuple[bytes, ...] = (
    b":",
    b": x",
    b"X",
    b"X Y: z",
    b"X\x00: y",
    b"X: y\x00",
    b"X: " + CANARY.encode() + b"\x01",
    b"X: \xff\xfe",
    b"\xff: x",
    b" X: folded",
    b"X: a\r\n b",
    b"X: a\rY: b",
    b"X: a\nY: b",
    b"Host: localhost\r\nHost: evil.example",
    b"Host : evil.example",
    b"Content-Length: -1",
    b"Content-Length: +5",
    b"Content-Length: 0x10",
    b"Content-Length: 5, 5",
    b"Content-Length: 5\r\nContent-Length: 6",
    b"Content-Length: 99999999999999999999999999",
    b"Content-Length: \xd9\xa3",
    b"Content-Length: 5\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\r\nContent-Length: 5",
    b"Transfer-Encoding: chunked, identity",
    b"Transfer-Encoding: xchunked",
    b"Transfer-Encoding: \x0bchunked",
    b"Transfer-Encoding : chunked",
    b"Transfer-Encoding: gzip, chunked",
    b"Expect: 200-maybe",
    b"Connection: close, keep-alive, upgrade",
    b"Upgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Key: x",
)

CHUNKED_BODIES: tuple[bytes, ...] = (
    b"zz\r\n",
    b"-1\r\n\r\n",
    b"5\r\nabc",
    b"5\r\nabcdefgh\r\n0\r\n\r\n",
    b"fffffffffffffffff\r\n",
    b"2;" + b"x" * 20_000 + b"\r\n{}\r\n0\r\n\r\n",
    b"2\n{}\n0\n\n",
    b"0\r\nX-Trailer: " + CANARY.encode() + b"\r\n\r\n",
    b"2\r\n{}\r\n0\r\n\r\nGET /v1/keys HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"\r\n\r\n",
)


def wire_attacks(sound_headers: bytes, seed: int) -> Iterator[bytes]:
    """Everything to write to a socket, one connection each."""
    for line in REQUEST_LINES:
        yield line + b"\r\n" + sound_headers + b"\r\n"
        yield line
    for header in HEADER_LINES:
        for method in (b"GET", b"POST"):
            yield method + b" /v1/inbound HTTP/1.1\r\n" + sound_headers + header + b"\r\n\r\n{}\r\n\r\n"
            yield method + b" /v1/inbound HTTP/1.1\r\n" + header + b"\r\n" + sound_headers + b"\r\n{}"
    for body in CHUNKED_BODIES:
        yield b"POST /v1/inbound HTTP/1.1\r\n" + sound_headers + b"Transfer-Encoding: chunked\r\n\r\n" + body
    whole = b"POST /v1/inbound HTTP/1.1\r\n" + sound_headers + b'Content-Length: 16\r\n\r\n{"session_id":1}'
    dice = random.Random(seed)
    for _ in range(250):
        spoilt = bytearray(whole)
        for _ in range(dice.randint(1, 5)):
            spoilt[dice.randrange(len(spoilt))] = dice.randrange(256)
        yield bytes(spoilt)
    for _ in range(100):
        yield whole[: dice.randrange(len(whole))]
