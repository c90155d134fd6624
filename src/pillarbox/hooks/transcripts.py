"""Finding the transcript of an agent that does not say where it writes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_MOST_DAYS = 400


def codex_transcript(native_session_id: str, home: Path | None = None) -> str | None:
    """The file Codex writes for one of its sessions: `sessions/YYYY/MM/DD/rollout-TIME-ID.jsonl`, the newest days first.

    The id is only ever compared with names that exist; it never becomes part of a path.
    """
    ending = f"-{native_session_id}.jsonl"
    for day in _days((home or codex_home()) / "sessions"):
        for entry in _entries(day):
            if entry.name.startswith("rollout-") and entry.name.endswith(ending):
                return str(entry)
    return None


def codex_home() -> Path:
    """Where Codex keeps its files."""
    return Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")


def _days(sessions: Path) -> Iterator[Path]:
    seen = 0
    for year in _entries(sessions):
        for month in _entries(year):
            for day in _entries(month):
                yield day
                seen += 1
                if seen == _MOST_DAYS:
                    return


def _entries(folder: Path) -> list[Path]:
    """What a folder holds, the last names first; nothing where it cannot be read."""
    try:
        return sorted(folder.iterdir(), reverse=True)
    except OSError:
        return []
