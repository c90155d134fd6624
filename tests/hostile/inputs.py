"""Every hostile request: the corpus, at every place of every endpoint, in an order and a choice that a seed decides."""

import json
import random
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec

from pillarbox.api.call import Endpoint
from tests.hostile.attack import Attack, but
from tests.hostile.corpus.markup import MARKUP
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
)
from tests.hostile.corpus.values import NAMES, NOT_JSON, VALUES
from tests.hostile.examples import EXAMPLES
from tests.hostile.form_inputs import in_cookies, in_form, sound_form, takes_a_form

HERE = "@here@"
_BYTE_FLIPS = 60
_PAIRS = 40
_UNSIGNED = 0.1
_QUOTED_MARKUP = tuple(quote(text, safe="").encode() for text in MARKUP)


def chosen(endpoint: Endpoint, seed: int, share: float) -> list[Attack]:
    """A share of the attacks on one endpoint, different for every seed; of its fields, which are most of them, a smaller one."""
    dice = random.Random(f"choice {seed} {endpoint.method} {endpoint.path}")
    few = [attack for attack in attacks(endpoint, seed) if dice.random() < share / (4 if _in_a_field(attack) else 1)]
    return [_unsigned(attack) if is_page(endpoint) and dice.random() < _UNSIGNED else attack for attack in few]


def _unsigned(attack: Attack) -> Attack:
    """The same from somebody who is not signed in, who learns of most faults only that a login is wanted."""
    return but(attack, dropped=attack.dropped | {"cookie"}, expected=attack.expected & {421, 431})


def _in_a_field(attack: Attack) -> bool:
    return attack.place.startswith(("body.", "form."))


def attacks(endpoint: Endpoint, seed: int) -> Iterator[Attack]:
    """All attacks on one endpoint."""
    path = endpoint.path.encode()
    for name in endpoint.names:
        path = path.replace(f"{{{name}}}".encode(), _marker(endpoint, name))
    bodies = [json.dumps(body).encode() for body in EXAMPLES[endpoint.method, endpoint.path]]
    form = sound_form(endpoint) if takes_a_form(endpoint) else b""
    sound = Attack("nothing", endpoint.method, path, body=bodies[0] if bodies else form)
    yield from _in_headers(endpoint, sound)
    yield from _in_path(endpoint, sound)
    yield from _in_query(endpoint, sound)
    for method in METHODS:
        if method != endpoint.method:
            yield but(sound, place="method", method=method)
    for body in BODIES_NOT_JSON:
        yield but(sound, place="body", body=body, expected=frozenset({400}) if endpoint.body else frozenset())
    for body in BODIES_OF_ANOTHER_SHAPE:
        yield but(sound, place="body", body=body, expected=frozenset({422}) if endpoint.body else frozenset())
    for example in EXAMPLES[endpoint.method, endpoint.path]:
        yield from _in_body(endpoint, sound, example)
    if is_page(endpoint):
        yield from in_cookies(endpoint, sound)
    if form:
        yield from in_form(endpoint, sound)
    if bodies:
        yield from _by_chance(endpoint, sound, bodies, random.Random(f"{seed} {endpoint.method} {endpoint.path}"))


def _marker(endpoint: Endpoint, name: str) -> bytes:
    """Names that stand for different things in different paths."""
    kinds = {"id": ("/hooks/", "event_id"), "token": ("/embed/", "embed_token"), "name": ("/static/", "file_name")}
    place, kind = kinds.get(name, ("", name))
    return f"@{kind if place in endpoint.path else name}@".encode()


def is_page(endpoint: Endpoint) -> bool:
    """Whether a browser shows it, with a login or without."""
    return endpoint.media_type in ("text/html", "text/event-stream") and not endpoint.path.startswith("/v1/")


def is_guarded(endpoint: Endpoint) -> bool:
    """Whether it asks for a key."""
    return endpoint.path.startswith("/v1/") or endpoint.path == "/metrics"


def _for_a_tenant(endpoint: Endpoint) -> set[int]:
    """What a tenant's own key gets."""
    if not endpoint.path.startswith("/v1/tenants/"):
        return {404}
    return {403} if endpoint.for_admins else set(endpoint.answers) | {404, 409}


def _in_headers(endpoint: Endpoint, sound: Attack) -> Iterator[Attack]:
    for field, corpus, refusal in (("authorization", KEYS, 401), ("host", HOSTS, 421)):
        for values in corpus:
            yield but(
                sound,
                place=field,
                headers=tuple((field, value) for value in values),
                dropped=frozenset({field}),
                expected=frozenset({refusal}) if field == "host" or is_guarded(endpoint) else frozenset(),
            )
    for key, statuses in (("@tenant_key@", _for_a_tenant(endpoint)), ("@rival_key@", {404})):
        yield but(
            sound,
            place="key of a tenant",
            headers=(("authorization", f"Bearer {key}"),),
            dropped=frozenset({"authorization"}),
            expected=frozenset(statuses if is_guarded(endpoint) else ()),
        )
    for headers in OTHER_HEADERS:
        dropped = frozenset({"cookie"} & dict(headers).keys())
        yield but(sound, place="headers", headers=headers, dropped=dropped)
    for headers in TOO_MANY_HEADERS:
        yield but(sound, place="headers", headers=headers, expected=frozenset({431}))


def _in_path(endpoint: Endpoint, sound: Attack) -> Iterator[Attack]:
    for name in endpoint.names:
        for segment in (*SEGMENTS, *(_QUOTED_MARKUP if is_page(endpoint) else ())):
            yield but(
                sound,
                place=f"path.{name}",
                target=sound.target.replace(_marker(endpoint, name), segment.replace(b"@", b"%40")),
            )
    for tail in (b"/", b"//", b"/.", b"/..", b"/x", b"%00", b"%2f", b";x", b"\\", b".json", b"/%2e%2e/keys"):
        yield but(sound, place="path", target=sound.target + tail)
    for head in (b"/", b"//127.0.0.1", b"/.", b"/x/..", b"/%2e"):
        yield but(sound, place="path", target=head + sound.target)
    yield but(sound, place="path", target=sound.target.upper())


def _in_query(endpoint: Endpoint, sound: Attack) -> Iterator[Attack]:
    for query in QUERIES:
        yield but(sound, place="query", target=sound.target + b"?" + query)
    fields = msgspec.structs.fields(endpoint.query) if endpoint.query is not None else ()
    for field in fields:
        for value in (*QUERY_VALUES, *(_QUOTED_MARKUP if is_page(endpoint) else ())):
            query = field.encode_name.encode() + b"=" + value
            yield but(sound, place=f"query.{field.encode_name}", target=sound.target + b"?" + query)


def _in_body(endpoint: Endpoint, sound: Attack, example: Any) -> Iterator[Attack]:
    fields = msgspec.structs.fields(endpoint.body) if endpoint.body is not None else ()
    places = [*places_in(example), *((field.encode_name,) for field in fields)]
    for place in dict.fromkeys(places):
        spoilt = json.dumps(spoilt_at(example, place)).encode()
        for value in VALUES:
            body = spoilt.replace(f'"{HERE}"'.encode(), value)
            expected = frozenset({400}) if value in NOT_JSON and endpoint.body else frozenset()
            yield but(sound, place=".".join(("body", *map(str, place))), body=body, expected=expected)
    for name in NAMES:
        body = json.dumps({**example, HERE: 1}).encode().replace(f'"{HERE}"'.encode(), name)
        yield but(sound, place="body", body=body, expected=frozenset({422}) if endpoint.body else frozenset())


def _by_chance(endpoint: Endpoint, sound: Attack, bodies: list[bytes], dice: random.Random) -> Iterator[Attack]:
    """Bytes changed, and two fields spoilt at once."""
    for _ in range(_BYTE_FLIPS):
        spoilt = bytearray(dice.choice(bodies))
        for _ in range(dice.randint(1, 4)):
            spoilt[dice.randrange(len(spoilt))] = dice.randrange(256)
        yield but(sound, place="bytes", body=bytes(spoilt))
    for _ in range(_PAIRS):
        example = dice.choice(EXAMPLES[endpoint.method, endpoint.path])
        places = list(places_in(example))
        for place in dice.sample(places, k=min(2, len(places))):
            example = spoilt_at(example, place)
        pieces = json.dumps(example).encode().split(f'"{HERE}"'.encode())
        body = pieces[0] + b"".join(dice.choice(VALUES) + piece for piece in pieces[1:])
        yield but(sound, place="pair", body=body)


def places_in(value: Any, above: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The way to every value inside a value."""
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in steps:
        yield (*above, step)
        yield from places_in(inner, (*above, step))


def spoilt_at(value: Any, place: tuple[str | int, ...]) -> Any:
    """A copy with the marker at a place."""
    if not place or isinstance(value, str):
        return HERE
    step, *rest = place
    copied: Any = dict(value) if isinstance(value, dict) else list(value)
    copied[step] = spoilt_at(value[step], tuple(rest)) if rest else HERE
    return copied
