"""What the rules of this folder look at."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "pillarbox"


def tracked_files() -> list[Path]:
    """Every file that is committed or about to be."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    files = (ROOT / name for name in listed.stdout.split("\0") if name)
    return [file for file in files if file.is_file()]


def text_of(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None
