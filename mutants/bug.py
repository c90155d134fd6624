"""What a planted bug is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Bug:
    """A piece of one file that is replaced by another, and the tests that must fail for it."""

    name: str
    file: str
    find: str
    put: str
    tests: tuple[str, ...]

    def applied(self, root: Path) -> str:
        """The file as it is with the bug; the piece must be there exactly once."""
        text = (root / self.file).read_text()
        if text.count(self.find) != 1:
            raise LookupError(f"{self.name}: the piece occurs {text.count(self.find)} times in {self.file}, not once")
        return text.replace(self.find, self.put)
