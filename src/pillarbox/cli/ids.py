"""From the beginning of a message's id, as narrow terminals show it, to the whole."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from pillarbox.cli.tables import SHORTEST_ID
from pillarbox.errors import InvalidInput

if TYPE_CHECKING:
    from pillarbox.cli.options import Options

_LAST = "ffffffff-ffff-ffff-ffff-ffffffffffff"
_BEGINNING = re.compile(f"[0-9a-f-]{{{SHORTEST_ID},{len(_LAST) - 1}}}")


def whole_id(options: Options, given: str) -> str:
    """The id of the one message that begins so; what cannot be a beginning, or is none, stays as it was given."""
    if not _BEGINNING.fullmatch(given):
        return given
    found = [each for each in asyncio.run(_up_to(options, given)) if each.startswith(given)]
    if len(found) > 1:
        raise InvalidInput("ID", f"several messages begin with {given}; give more of it.")
    return found[0] if found else given


async def _up_to(options: Options, beginning: str) -> list[str]:
    """The last two ids that are not beyond those that begin so; ids are listed in their order, the newest first."""
    async with options.open(make=False) as box:
        listed = await box.outbound.list(limit=2, before=beginning + _LAST[len(beginning) :])
    return [each.message_id for each in listed]
