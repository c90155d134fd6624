"""What happened, line by line: each process keeps a journal of its own, and all of them read the same monotonic clock."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class Journal:
    """Lines are gathered and written together; `keep` puts them on disk."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._lines: list[bytes] = []
        self._guard = threading.Lock()
        self.count = 0

    def add(self, **entry: Any) -> None:
        """Note one thing with the time it is noted at, unless another is given."""
        entry.setdefault("at", time.monotonic())
        with self._guard:
            self._lines.append(_encode(entry))
            self.count += 1

    def keep(self, *, durable: bool = True) -> None:
        """Write what was gathered."""
        with self._guard:
            lines, self._lines = self._lines, []
            if lines:
                os.write(self._file, b"\n".join(lines) + b"\n")
        if durable:
            os.fsync(self._file)

    def close(self) -> None:
        self.keep()
        os.close(self._file)


def entries(path: Path) -> Iterator[dict[str, Any]]:
    """Every whole line; the last one of a killed process may be torn, and was then never relied on."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield _decode(line)
