"""A line chart as SVG: sizes on a logarithmic scale, rates from zero."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

Points = Sequence[tuple[float, float]]
WIDTH, HEIGHT = 760, 360
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 40, 50
COLOURS = ("#1b6ca8", "#c8553d", "#3a7d44", "#7a5195", "#b8860b", "#4d4d4d")
# Readable on a page of either colour.
STYLE = "text{font:12px sans-serif;fill:#777} .title{font-size:14px;font-weight:bold} line{stroke:#999;stroke-width:.5}"


def chart(title: str, series: Mapping[str, Points], *, across: str, up: str, logarithmic: bool) -> str:
    """Every series in a colour of its own, solid or dashed as its place in the list is even or odd."""
    xs = [x for points in series.values() for x, _ in points]
    top = nice(max(y for points in series.values() for _, y in points))

    def place(x: float, y: float) -> str:
        low, high = min(xs), max(xs)
        part = (math.log(x / low) / math.log(high / low)) if logarithmic else (x - low) / (high - low)
        return f"{LEFT + part * (WIDTH - LEFT - RIGHT):.1f},{HEIGHT - BOTTOM - y / top * (HEIGHT - TOP - BOTTOM):.1f}"

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<text class="title" x="{LEFT}" y="20">{escape(title)}</text>',
    ]
    for step in range(5):
        y = top * step / 4
        _, height = place(min(xs), y).split(",")
        lines.append(f'<line x1="{LEFT}" y1="{height}" x2="{WIDTH - RIGHT}" y2="{height}"/>')
        lines.append(f'<text x="{LEFT - 8}" y="{height}" text-anchor="end" dy="4">{short(y)}</text>')
    ticks = sorted(set(xs)) if logarithmic else [min(xs) + (max(xs) - min(xs)) * n / 4 for n in range(5)]
    for x in ticks:
        along, _ = place(x, 0).split(",")
        lines.append(f'<text x="{along}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{short(x)}</text>')
    lines.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 10}" text-anchor="middle">{escape(across)}</text>'
    )
    lines.append(f'<text x="{LEFT}" y="{TOP - 6}" text-anchor="end">{escape(up)}</text>')
    for number, (name, points) in enumerate(series.items()):
        lines += _series(name, [place(x, y) for x, y in points], number)
    return "\n".join([*lines, "</svg>", ""])


def _series(name: str, places: list[str], number: int) -> list[str]:
    colour, dashed = COLOURS[number // 2 % len(COLOURS)], ' stroke-dasharray="5 3"' if number % 2 else ""
    height = TOP + 14 + number * 20
    legend = f'x1="{WIDTH - RIGHT + 12}" y1="{height - 4}" x2="{WIDTH - RIGHT + 36}" y2="{height - 4}"'
    return [
        f'<polyline points="{" ".join(places)}" fill="none" stroke="{colour}" stroke-width="2"{dashed}/>',
        f'<line {legend} style="stroke:{colour};stroke-width:2"{dashed}/>',
        f'<text x="{WIDTH - RIGHT + 42}" y="{height}">{escape(name)}</text>',
    ]


def nice(value: float) -> float:
    """The next number that looks well at the top of a scale."""
    magnitude: float = 10 ** math.floor(math.log10(value))
    return next(step * magnitude for step in (1, 2, 4, 5, 8, 10) if step * magnitude >= value)


def short(value: float) -> str:
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:.3g}"
