"""Figures as a table for people and as values for files."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement, and somebody else's of the same thing in the same run where there is one to compare with."""

    database: str
    what: str
    value: float
    unit: str
    theirs: float | None = None
    aim: str = ""
    whose: str = "raw driver"

    @property
    def ratio(self) -> float | None:
        return None if not self.theirs else self.value / self.theirs


@dataclass(slots=True)
class Report:
    figures: list[Figure] = field(default_factory=list)

    def add(self, figure: Figure) -> None:
        self.figures.append(figure)

    def show(self) -> None:
        durable = "fsync on; Redis with appendonly for all alike"
        table = Table(title=f"Pillarbox on {os.cpu_count()} cores, {platform.machine()}, {durable}")
        for heading in ("database", "what", "ours", "theirs", "whose", "ratio", "aim"):
            table.add_column(heading, justify="right" if heading in ("ours", "theirs", "ratio") else "left")
        for figure in self.figures:
            table.add_row(
                figure.database,
                figure.what,
                f"{figure.value:,.2f} {figure.unit}" if figure.value < 100 else f"{figure.value:,.0f} {figure.unit}",
                f"{figure.theirs:,.0f} {figure.unit}" if figure.theirs else "",
                figure.whose if figure.theirs else "",
                f"{figure.ratio:.2f}" if figure.ratio is not None else "",
                figure.aim,
            )
        Console(width=130).print(table)

    def document(self) -> list[dict[str, Any]]:
        """The figures as a result file holds them."""
        return [asdict(figure) | {"ratio": figure.ratio} for figure in self.figures]
