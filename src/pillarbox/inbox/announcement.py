"""What an inbox that others may use says of itself; never a secret."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

import msgspec

KIND = "inbox"


class InboxEndpoint(msgspec.Struct, frozen=True):
    """Where the service is reached, and whether it wants a bearer token; the token is not said."""

    scheme: str
    url: str
    auth: Literal["none", "bearer"]


class LeaseDefaults(msgspec.Struct, frozen=True):
    """How long a key is leased to a caller who does not say."""

    seconds: float


class Announcement(msgspec.Struct, frozen=True, rename="camel"):
    """The service in one object, for those who choose among several."""

    kind: str
    name: str
    version: str
    endpoint: InboxEndpoint
    lease_defaults: LeaseDefaults
    retention_days: float


def announce(*, name: str, version: str, url: str, lease_seconds: float, retention_days: float) -> Announcement:
    """The announcement of a service at `url`."""
    return Announcement(
        kind=KIND,
        name=name,
        version=version,
        endpoint=InboxEndpoint(scheme=urlsplit(url).scheme, url=url, auth="bearer"),
        lease_defaults=LeaseDefaults(lease_seconds),
        retention_days=retention_days,
    )
