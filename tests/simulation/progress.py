"""How far many seeds are, for whoever waits."""

from __future__ import annotations

import sys
import time

_BAR = 30
_BETWEEN_LINES = 15.0


class Progress:
    """A bar that moves on a terminal; elsewhere a line now and then."""

    def __init__(self, name: str, of: int) -> None:
        self._name, self._of = name, of
        self._began, self._said = time.monotonic(), float("-inf")
        self._moves = sys.stderr.isatty()

    def show(self, done: int, failed: int) -> None:
        now = time.monotonic()
        if not self._moves and now - self._said < _BETWEEN_LINES:
            return
        self._said, seconds = now, now - self._began
        full = _BAR * done // self._of
        left = f", about {seconds * (self._of - done) / done:.0f} s left" if done else ""
        line = (
            f"{self._name} [{'#' * full}{'.' * (_BAR - full)}] {done:,} of {self._of:,} seeds, {failed:,} failed{left}"
        )
        print(f"\r\x1b[K{line}" if self._moves else line, end="" if self._moves else "\n", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Make room for what is printed."""
        if self._moves:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
