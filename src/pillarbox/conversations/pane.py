"""The last resort for output: what new lines a terminal shows once it has been still for a while."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from pillarbox.conversations.model import Cursor, Source
from pillarbox.inbound.targets.tmux_pane import Terminal
from pillarbox.inbound.targets.tmux_server import TmuxServer, TmuxTrouble
from pillarbox.inbound.targets.tmux_text import session_key

_ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_CALL_SECONDS = 5.0
_ANCHOR = 12
_MOST_LINES = 500


@dataclass(frozen=True, slots=True)
class Seen:
    """New lines of a terminal, and the place to go on from."""

    text: str
    cursor: Cursor


class PaneWatch:
    """Looks at terminals; what is still changing is not told yet, and neither is the line where the cursor stands."""

    def __init__(self, *, quiet: float) -> None:
        self._quiet = quiet
        self._last: dict[str, tuple[str, float]] = {}

    async def look(self, source: Source, target: dict[str, Any], moment: float) -> Seen | None:
        """What is new in a session's terminal; None while it changes, shows a full screen, or is not there."""
        try:
            screen = await _capture(source.session_id, target)
        except TmuxTrouble:
            return None
        if screen is None:
            return None
        digest = sha256("\n".join(screen).encode()).hexdigest()[:32]
        if source.read.head is not None and source.read.head.startswith(digest):
            self._last.pop(source.session_id, None)
            return None
        before = self._last.get(source.session_id)
        if before is None or before[0] != digest:
            self._last[source.session_id] = (digest, moment)
            return None
        if moment - before[1] < self._quiet:
            return None
        self._last.pop(source.session_id, None)
        anchor = (source.read.head or "").partition(":")[2]
        fresh = [] if source.read.head is None else screen[_behind(screen, anchor) :]
        text = "\n".join(line.rstrip() for line in fresh[-_MOST_LINES:]).strip("\n")
        read = Cursor(source.read.source, f"{digest}:{_anchor(screen)}", len(screen), source.read.told_until)
        return Seen(text if text.strip() else "", read)


async def _capture(session_id: str, target: dict[str, Any]) -> list[str] | None:
    """The lines above the cursor of the pane that messages are typed into, history included.

    None while a program has the whole screen.
    """
    server = TmuxServer(target.get("socket") or "default")
    pane = await Terminal(server, target["name"], session_key(session_id), None, _CALL_SECONDS).pinned()
    if pane.full_screen:
        return None
    if pane.cursor_row == 0:
        return []
    text = await server.call(
        "capture-pane",
        "-p",
        "-J",
        "-S",
        f"-{_MOST_LINES}",
        "-E",
        str(pane.cursor_row - 1),
        "-t",
        pane.pane_id,
        seconds=_CALL_SECONDS,
    )
    return [_ACTING.sub("", line) for line in text.removesuffix("\n").split("\n")]


def _anchor(screen: Sequence[str]) -> str:
    """By what the end of this screen is found again in a later one."""
    return ",".join(_short(line) for line in screen[-_ANCHOR:])


def _behind(screen: Sequence[str], anchor: str) -> int:
    """The first line behind the place where the last look ended; the beginning, where that is gone."""
    marks = anchor.split(",") if anchor else []
    shorts = [_short(line) for line in screen]
    for length in range(len(marks), 0, -1):
        wanted = marks[-length:]
        for end in range(len(shorts), length - 1, -1):
            if shorts[end - length : end] == wanted:
                return end
        if length <= 3:
            break
    return 0


def _short(line: str) -> str:
    return sha256(line.rstrip().encode()).hexdigest()[:8]
