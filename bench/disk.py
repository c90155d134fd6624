"""Which file system a folder is on: in memory an fsync costs nothing, and no figure would mean anything."""

from __future__ import annotations

from pathlib import Path

IN_MEMORY = frozenset({"tmpfs", "ramfs"})


def file_system_of(folder: Path) -> str:
    """Its kind as Linux calls it, or `unknown` elsewhere."""
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return "unknown"
    found, depth = "unknown", -1
    for line in mounts.read_text().splitlines():
        _, place, kind, *_ = line.split()
        inside = folder.resolve().is_relative_to(place)
        if inside and len(Path(place).parts) > depth:
            found, depth = kind, len(Path(place).parts)
    return found
