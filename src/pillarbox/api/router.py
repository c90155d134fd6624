"""From a path to its endpoints.

Works on the path as it came over the wire: a session id is one segment whatever it holds, `%2F` included. Starlette's
router sees the path only after decoding, where such a slash cannot be told from the ones between segments.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote_to_bytes

from starlette.types import Scope

from pillarbox.api.call import Endpoint


@dataclass(frozen=True, slots=True)
class Place:
    """A path and what can be done there."""

    path: str
    pieces: tuple[str, ...]
    endpoints: Mapping[str, Endpoint]
    allow: bytes

    def read(self, segments: Sequence[str | None]) -> dict[str, str] | None:
        """The names in the path and what stands in their place, or None when this is another path."""
        named: dict[str, str] = {}
        for piece, segment in zip(self.pieces, segments, strict=True):
            if piece == "{key}" and segment is None:
                # A key may be any text, so what is none is a faulty key and not an unknown path.
                named["key"] = "\0"
            elif piece.startswith("{"):
                if not segment:
                    return None
                named[piece[1:-1]] = segment
            elif piece != segment:
                return None
        return named


class Router:
    """All places, by the number of their segments."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        by_path: dict[str, dict[str, Endpoint]] = defaultdict(dict)
        for endpoint in endpoints:
            by_path[endpoint.path][endpoint.method] = endpoint
            if endpoint.method == "GET":
                by_path[endpoint.path]["HEAD"] = endpoint
        self._by_length: dict[int, list[Place]] = defaultdict(list)
        for path, methods in by_path.items():
            pieces = tuple(path.split("/")[1:])
            allow = ", ".join(sorted({*methods, "OPTIONS"})).encode()
            self._by_length[len(pieces)].append(Place(path, pieces, methods, allow))

    def find(self, segments: Sequence[str | None], method: str) -> tuple[Place, dict[str, str]] | None:
        """The place that takes the method, where several have this path: a key of the inbox may be named like a verb."""
        first = None
        for place in self._by_length.get(len(segments), ()):
            named = place.read(segments)
            if named is not None:
                if method in place.endpoints:
                    return place, named
                first = first or (place, named)
        return first


def segments_of(scope: Scope) -> list[str | None]:
    """The path's segments, decoded one by one; None stands for one that is no text."""
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    path = raw.partition(b"?")[0]
    return [_decoded(segment) for segment in path.split(b"/")[1:]]


def _decoded(segment: bytes) -> str | None:
    try:
        text = (unquote_to_bytes(segment) if b"%" in segment else segment).decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text
