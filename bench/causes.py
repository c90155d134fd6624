"""Why something misses its aim, with the figures of the run that missed it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class NotMeasured:
    """Stands in a sentence where an older result has no figure."""

    def __format__(self, _: str) -> str:
        return "(not measured)"


class Figures:
    """A row of a result, or several figures made from some; what it lacks was not measured."""

    def __init__(self, row: Mapping[str, Any]) -> None:
        self._row = row

    def __getitem__(self, name: str) -> object:
        return self._row.get(name, NotMeasured())


class Causes:
    """Why something misses its aim."""

    def __init__(self, path: Path) -> None:
        self._causes: dict[str, str] = json.loads(path.read_text())

    def of(self, what: str, **measured: Mapping[str, Any]) -> str:
        """The cause, with what was measured where it names that."""
        for beginning, cause in self._causes.items():
            if what.startswith(beginning):
                return cause.format(**{name: Figures(figures) for name, figures in measured.items()})
        raise LookupError(f"{what} misses its aim; write its cause into docs/results/bench-causes.json")
