"""What nobody should send as a form of a page, with and without the login that the page asks for."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote_plus, urlencode

from pillarbox.api.call import Endpoint
from tests.hostile.attack import Attack, but
from tests.hostile.corpus.markup import MARKUP
from tests.hostile.corpus.requests import QUERY_VALUES, Headers
from tests.hostile.corpus.texts import ADDRESSES, CANARY, TEXTS
from tests.hostile.forms import FORMS, TOKEN, WITHOUT_TOKEN

_KIND = (("content-type", "application/x-www-form-urlencoded"),)
_VALUES = tuple(
    dict.fromkeys(
        (
            *(quote_plus(text, errors="surrogatepass").encode() for text in (*TEXTS, *MARKUP, *ADDRESSES)),
            *QUERY_VALUES,
            # A document that no program can read, and a number that none wants to.
            b"9" * 5000,
            b"%5B" * 2000,
        )
    )
)
COOKIES: tuple[Headers, ...] = (
    (),
    (("cookie", ""),),
    (("cookie", "pillarbox_login="),),
    (("cookie", f"pillarbox_login={CANARY}"),),
    (("cookie", "pillarbox_login=" + "A" * 43),),
    (("cookie", "pillarbox_login=\xff\xfe"),),
    (("cookie", "PILLARBOX_LOGIN=x; $Version=1; pillarbox_login"),),
    (("cookie", "a=b;" * 1000),),
)
ORIGINS = ("https://evil.example", "null", "", "http://127.0.0.1:8025.evil.example", "http://127.0.0.1:1", "\xff")


def takes_a_form(endpoint: Endpoint) -> bool:
    return endpoint.method == "POST" and endpoint.path in FORMS


def sound_form(endpoint: Endpoint) -> bytes:
    return _encoded(_fields(endpoint))


def in_cookies(endpoint: Endpoint, sound: Attack) -> Iterator[Attack]:
    """Without a login, or with what is none: never more than the way to the login is shown."""
    for headers in COOKIES:
        yield but(sound, place="cookie", headers=headers, dropped=frozenset({"cookie"}))


def in_form(endpoint: Endpoint, sound: Attack) -> Iterator[Attack]:
    """Each field spoilt, left out and given twice; forms of others; and bodies that are no forms."""
    fields = _fields(endpoint)
    sound = but(sound, headers=_KIND)
    needs_token = endpoint.path not in WITHOUT_TOKEN
    for name in (*fields, "back", f"{CANARY}[]"):
        others = {other: value for other, value in fields.items() if other != name}
        forged = frozenset({403}) if name in TOKEN and needs_token else frozenset()
        for value in _VALUES:
            body = b"&".join(filter(None, (_encoded(others), _encoded({name: ""}) + value)))
            too_large = forged and len(body) > 4000
            yield but(sound, place=f"form.{name}", body=body, expected=frozenset() if too_large else forged)
        yield but(sound, place="form", body=_encoded(others), expected=forged)
        yield but(sound, place="form", body=_encoded(fields) + b"&" + _encoded({name: CANARY}))
    for origin in ORIGINS:
        yield but(sound, place="origin", headers=(*_KIND, ("origin", origin)), expected=frozenset({403}))
    for body in _no_forms(fields):
        yield but(sound, place="form", body=body, expected=frozenset({400, 413}))


def _no_forms(fields: dict[str, str]) -> Iterator[bytes]:
    yield _encoded(fields) + b"&a=\xff"
    yield _encoded(fields) + b"\x00\x80"
    yield _encoded(fields) + "&é=1".encode()
    yield b"&".join((_encoded(fields), *(b"a%d=1" % number for number in range(41))))
    yield b"&" * 2**20 + b"x" * 9000 + _encoded(fields)


def _fields(endpoint: Endpoint) -> dict[str, str]:
    fields = FORMS[endpoint.path]
    return fields if endpoint.path in WITHOUT_TOKEN else {**TOKEN, **fields}


def _encoded(fields: Any) -> bytes:
    """The names of what a stand has made are filled in later, and so stay as they are."""
    return urlencode(fields, safe="@").encode()
