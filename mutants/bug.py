"""What a planted bug is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class Edit(NamedTuple):
    """A piece of one file that is replaced by another."""

    file: str
    find: str
    put: str


@dataclass(frozen=True, slots=True)
class Bug:
    """A piece of one file that is replaced by another, and the tests that must fail for it; `also` where it takes more."""

    name: str
    file: str
    find: str
    put: str
    tests: tuple[str, ...]
    also: tuple[Edit, ...] = ()

    def applied(self, root: Path) -> dict[str, str]:
        """The files as they are with the bug; each piece must be there exactly once."""
        texts: dict[str, str] = {}
        for edit in (Edit(self.file, self.find, self.put), *self.also):
            text = texts.get(edit.file) or (root / edit.file).read_text()
            if (times := text.count(edit.find)) != 1:
                raise LookupError(f"{self.name}: the piece occurs {times} times in {edit.file}, not once")
            texts[edit.file] = text.replace(edit.find, edit.put)
        return texts
