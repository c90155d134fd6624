"""What settings are made of: a section, and the kinds of number and word that several sections share."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

_YEAR = 366 * 86_400.0

Seconds = Annotated[float, Meta(ge=0.01, le=_YEAR)]
Days = Annotated[float, Meta(gt=0, le=36_600)]
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Port = Annotated[int, Meta(ge=0, le=65_535)]
Name = Annotated[str, Meta(min_length=1)]
Bytes = Annotated[int, Meta(ge=0, le=2**40)]
Share = Annotated[float, Meta(ge=0, le=1)]
Attempts = Annotated[int, Meta(ge=1, le=20)]


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table of `pillarbox.toml`."""
