"""One request on its way to an endpoint, and what describes an endpoint."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import msgspec

from pillarbox.api.answers import Answer
from pillarbox.api.faults import fault_of
from pillarbox.api.head import Head
from pillarbox.api.paging import row_number
from pillarbox.api.problems import invalid, no_such_path

if TYPE_CHECKING:
    from starlette.types import Receive, Scope

    from pillarbox.api.app import Api
    from pillarbox.box import Pillarbox

_MOST_PARAMETERS = 50


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An empty object, where a body says nothing; it may be left out."""


@dataclass(slots=True)
class Call:
    """A request after all checks: `body` and `query` have the types that the endpoint names."""

    api: Api
    head: Head
    scope: Scope
    receive: Receive
    path: Mapping[str, str]
    body: Any = None
    query: Any = None
    by_tenant: bool = False
    """Whether it was made with a tenant's key."""

    @property
    def box(self) -> Pillarbox:
        return self.api.box

    @property
    def row(self) -> int:
        """The id in the path."""
        number = row_number(self.path["id"])
        if number is None:
            raise no_such_path()
        return number


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method on one path; the routes and the OpenAPI document are both made from these."""

    method: str
    path: str
    act: Callable[[Call], Awaitable[Answer]]
    summary: str
    answers: Mapping[int, Any]
    body: type[msgspec.Struct] | None = None
    query: type[msgspec.Struct] | None = None
    headers: tuple[str, ...] = ()
    problems: tuple[int, ...] = ()
    media_type: str = "application/json"
    needs_key: bool = True
    for_admins: bool = False
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        names = (piece[1:-1] for piece in self.path.split("/") if piece.startswith("{"))
        object.__setattr__(self, "names", tuple(names))


def parameters(query_string: bytes) -> dict[str, str]:
    """The query's parameters, each at most once; an empty one is not there."""
    try:
        pairs = parse_qsl(query_string.decode("ascii"), errors="strict", max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        raise invalid("query", "must be percent-encoded UTF-8 with at most 50 parameters.") from None
    given = dict(pairs)
    if len(given) < len(pairs):
        raise invalid("query", "must not give a parameter twice.")
    return given


def read_query(query_string: bytes, kind: type[msgspec.Struct]) -> msgspec.Struct:
    """The parameters of a query as a struct, checked like a body."""
    given = parameters(query_string)
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise invalid(*fault_of(error, kind)) from None
