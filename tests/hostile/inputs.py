"""Every hostile request: the corpus, at every place of every endpoint, in an order and a choice that a seed decides."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from pillarbox.api.call import Endpoint
from tests.hostile.corpus.requests import (
    BODIES_NOT_JSON,
    BODIES_OF_ANOTHER_SHAPE,
    HOSTS,
    KEYS,
    METHODS,
    OTHER_HEADERS,
    QUERIES,
    QUERY_VALUES,
    SEGMENTS,
    TOO_MANY_HEADERS,
    Headers,
)
from tests.hostile.corpus.values import NAMES, NOT_JSON, VALUES
from tests.hostile.examples import EXAMPLES

_HERE = "@here@"
_BYTE_FLIPS = 60
_PAIRS = 40


@dataclass(frozen=True)
class Attack:
    """One request; `dropped` are the usual headers that it goes without, `expected` the statuses it may have, if known."""

    place: str
    method: str
    target: bytes
    headers: Headers = ()
    body: bytes = b""
    dropped: frozenset[str] = frozenset()
    expected: frozenset[int] = frozenset()


def attacks(endpoint: Endpoint, seed: int) -> Iterator[Attack]:
    """All attacks on one endpoint."""
    path = endpoint.path.encode()
    for name in endpoint.names:
        path = path.replace(f"{{{name}}}".encode(), _marker(endpoint, name))
    bodies = [json.dumps(body).encode() for body in EXAMPLES[endpoint.method, endpoint.path]]
    sound = Attack("nothing", endpoint.method, path, body=bodies[0] if bodies else b"")
    yield from _in_headers(endpoint, sound)
    yield from _in_path(endpoint, sound)
    yield from _in_query(endpoint, sound)
    for method in METHODS:
        if method != endpoint.method:
            yield _but(sound, place="method", method=method)
    for body in BODIES_NOT_JSON:
        yield _but(sound, place="body", body=body, expected=frozenset({400}) if endpoint.body else frozenset())
    for body in BODIES_OF_ANOTHER_SHAPE:
        yield _but(sound, place="body", body=body, expected=frozenset({422}) if endpoint.body else frozenset())
    if endpoint.body is not None:
        for example in EXAMPLES[endpoint.method, endpoint.path]:
            yield from _in_body(endpoint, sound, example)
        yield from _by_chance(endpoint, sound, bodies, random.Random(f"{seed} {endpoint.method} {endpoint.path}"))


def _marker(endpoint: Endpoint, name: str) -> bytes:
    """`id` is the one name that two kinds of rows share."""
    kind = "event_id" if name == "id" and endpoint.path.startswith("/v1/hooks") else name
    return f"@{kind}@".encode()


def _in_headers(endpoint: Endpoint, sound: Attack) -> Iterator[Attack]:
    for field, corpus, refusal in (("authorization", KEYS, 401), ("host", HOSTS, 421)):
        guarded = field == "host" or endpoint.path.startswith("/v1") or endpoint.path == "/metrics"
        for values in corpus:
            yield _but(
                sound,
                place=field,
                headers=tuple((field, value) for value in values),
                dropped=frozenset({field}),
                expected=frozenset({refusal}) if guarded else frozenset(),
            )
    for headers in OTHER_HEADERS:
        yield _but(sound, place="headers", headers=headers)
    for headers in TOO_MANY_HEADERS:
        yield _but(sound, place="headers", headers=headers, expected=frozenset({431}))


def _in_path(endpoint: Endpoint, sound: Attack) -> Iterator[Attack]:
    for name in endpoint.names:
        for segment in SEGMENTS:
            yield _but(
                sound,
                place=f"path.{name}",
                target=sound.target.replace(_marker(endpoint, name), segment.replace(b"@", b"%40")),
            )
    for tail in (b"/", b"//", b"/.", b"/..", b"/x", b"%00", b"%2f", b";x", b"\\", b".json", b"/%2e%2e/keys"):
        yield _but(sound, place="path", target=sound.target + tail)
    for head in (b"/", b"//127.0.0.1", b"/.", b"/x/..", b"/%2e"):
        yield _but(sound, place="path", target=head + sound.target)
    yield _but(sound, place="path", target=sound.target.upper())


def _in_query(endpoint: Endpoint, sound: Attack) -> Iterator[Attack]:
    for query in QUERIES:
        yield _but(sound, place="query", target=sound.target + b"?" + query)
    fields = msgspec.structs.fields(endpoint.query) if endpoint.query is not None else ()
    for field in fields:
        for value in QUERY_VALUES:
            query = field.encode_name.encode() + b"=" + value
            yield _but(sound, place=f"query.{field.encode_name}", target=sound.target + b"?" + query)


def _in_body(endpoint: Endpoint, sound: Attack, example: Any) -> Iterator[Attack]:
    assert endpoint.body is not None
    places = [*_places(example), *((field.encode_name,) for field in msgspec.structs.fields(endpoint.body))]
    for place in dict.fromkeys(places):
        spoilt = json.dumps(_with(example, place)).encode()
        for value in VALUES:
            body = spoilt.replace(f'"{_HERE}"'.encode(), value)
            expected = frozenset({400}) if value in NOT_JSON else frozenset()
            yield _but(sound, place=".".join(("body", *map(str, place))), body=body, expected=expected)
    for name in NAMES:
        body = json.dumps({**example, _HERE: 1}).encode().replace(f'"{_HERE}"'.encode(), name)
        yield _but(sound, place="body", body=body, expected=frozenset({422}))


def _by_chance(endpoint: Endpoint, sound: Attack, bodies: list[bytes], dice: random.Random) -> Iterator[Attack]:
    """Bytes changed, and two fields spoilt at once."""
    for _ in range(_BYTE_FLIPS):
        body = bytearray(dice.choice(bodies))
        for _ in range(dice.randint(1, 4)):
            body[dice.randrange(len(body))] = dice.randrange(256)
        yield _but(sound, place="bytes", body=bytes(body))
    for _ in range(_PAIRS):
        example = dice.choice(EXAMPLES[endpoint.method, endpoint.path])
        for place in dice.sample(list(_places(example)), k=min(2, len(list(_places(example))))):
            example = _with(example, place)
        pieces = json.dumps(example).encode().split(f'"{_HERE}"'.encode())
        body = pieces[0] + b"".join(dice.choice(VALUES) + piece for piece in pieces[1:])
        yield _but(sound, place="pair", body=body)


def _places(value: Any, above: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The way to every value inside a value."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in steps:
        yield (*above, step)
        yield from _places(inner, (*above, step))


def _with(value: Any, place: tuple[str | int, ...]) -> Any:
    """A copy with the marker at a place."""
    if not place or isinstance(value, str):
        return _HERE
    step, *rest = place
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[step] = _with(value[step], tuple(rest)) if rest else _HERE
    return copied


def _but(attack: Attack, **changes: Any) -> Attack:
    return Attack(**{**vars(attack), **changes})
