"""What the documentation consists of: its pages, and the blocks of code in them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"

_BLOCK = re.compile(
    r"(?:^<!-- (?P<note>[^\n]*?) -->\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    """A fenced block, and what the comment right above it says of it, as in `terminal: listening on`."""

    place: str
    kind: str
    text: str
    verb: str
    detail: str


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for found in _BLOCK.finditer(text):
        verb, _, detail = (found["note"] or "").partition(": ")
        line = text.count("\n", 0, found.start("kind")) + 1
        yield Block(f"{name_of(page)}:{line}", found["kind"], found["text"], verb, detail)
