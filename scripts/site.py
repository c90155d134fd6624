"""What mkdocs is told about this repository: pages that lie outside docs/, and links that lead out of the site."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FROM_THE_ROOT = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "examples/README.md": "examples.md",
}
"""Pages that everybody looks for elsewhere, and where the site has them."""
_SOURCES = {page: ROOT / source for source, page in FROM_THE_ROOT.items()}
_SHOWN = (".md", ".png", ".svg")
_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(
    r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?!https?:|mailto:|#)(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)"
)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages from outside docs/."""
    for page, source in _SOURCES.items():
        files.append(File.generated(config, page, content=source.read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead links to where the site has things; a link to what it has not becomes its text."""
    place = page.file.src_uri
    source = _SOURCES.get(place, DOCS / place)
    pieces = _FENCED.split(markdown)
    return "".join(piece if piece.startswith("```") else _led(piece, source, place) for piece in pieces)


def _led(prose: str, source: Path, place: str) -> str:
    def lead(link: re.Match[str]) -> str:
        there = Path(os.path.normpath(source.parent / link["path"]))
        shown = FROM_THE_ROOT.get(str(there.relative_to(ROOT)))
        if shown is None and there.is_relative_to(DOCS) and there.suffix in _SHOWN:
            shown = str(there.relative_to(DOCS))
        if shown is None:
            return link["text"]
        path = os.path.relpath(shown, Path(place).parent)
        return f"{link['picture']}[{link['text']}]({path}{link['anchor'] or ''})"

    return _LINK.sub(lead, prose)
