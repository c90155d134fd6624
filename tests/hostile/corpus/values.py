"""JSON values in the wrong place, as they come over the wire; some of them are not even JSON."""

import json

from tests.hostile.corpus.texts import ADDRESSES, CANARY, INSTANTS, TEXTS

PLAIN: tuple[bytes, ...] = (
    b"null",
    b"true",
    b"false",
    b"0",
    b"-0",
    b"-1",
    b"1.5",
    b"3.0",
    b"1e308",
    b"-1e-320",
    b"2147483648",
    b"9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775809",
    b"18446744073709551616",
    b"1" + b"0" * 300,
    b"[]",
    b"[[]]",
    b"[null]",
    b'[""]',
    b'["a","a"]',
    b"[" + b"1," * 2000 + b"1]",
    b"{}",
    b'{"":""}',
    b'{"a":null}',
    b'{"a":1,"a":2}',
    b'{"kind":"http"}',
    b'{"__proto__":{"admin":true}}',
    b'{"a":{"b":{"c":["\\u0000"]}}}',
    b'{"a\\ud800":1}',
    b'["\\udfff"]',
    b'"\\ud83d"',
    b"[" * 100 + b"]" * 100,
    b'{"a":' * 100 + b"1" + b"}" * 100,
    b'["' + CANARY.encode() + b'"]',
    b'{"' + b"k" * 500 + b'":1}',
)

NOT_JSON: tuple[bytes, ...] = (
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"1e999",
    b"9" * 5000,
    b"01",
    b"+1",
    b".5",
    b"1.",
    b"0x10",
    b"'text'",
    b"undefined",
    b"True",
    b'"\xff"',
    b'"\xed\xa0\x80"',
    b'"\xc0\x80"',
    b'"\xf8\x88\x80\x80\x80"',
    b'"\x00"',
    b'"\n"',
    b'"\\x41"',
    b'"\\u12"',
    b'"unended',
    b"[1,]",
    b'{"a":1,}',
    b"{a:1}",
    b"/* */1",
    b"[" * 100_000,
    b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
)

VALUES: tuple[bytes, ...] = (
    PLAIN + NOT_JSON + tuple(json.dumps(text).encode() for text in (*TEXTS, *ADDRESSES, *INSTANTS))
)

NAMES: tuple[bytes, ...] = tuple(
    json.dumps(name).encode()
    for name in (
        "",
        " ",
        "\0",
        "\ud800",
        "\x1b[31m",
        "id",
        "status",
        "tenant_id",
        "attempt_count",
        "__proto__",
        "__class__",
        "a.b",
        "a` - at `$.b",
        "$",
        "é",
        "\u202e",
        "x" * 5000,
    )
)
