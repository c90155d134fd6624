import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bench.aims import flatness, unmeasured, verdicts
from bench.disk import file_system_of
from bench.page import Causes
from bench.picture import chart


def row(name: str, store: str, **figures: float) -> dict[str, Any]:
    usual = {"single": 100.0, "together": 1000.0, "drain1": 1000.0, "drain2": 1000.0, "p50": 5.0}
    return {"name": name, "store": store, **usual, **figures}


def test_every_aim_is_held_against_the_peer_it_names() -> None:
    rows = [
        row("the database itself", "postgres"),
        row("Pillarbox outbound", "postgres", drain1=12_000, together=990, p50=2),
        row("Pillarbox outbound", "sqlite", drain1=9_000, p50=6),
        row("Pillarbox hooks", "sqlite", drain1=10_000, p50=5),
        row("PgQueuer", "postgres", drain1=8_000),
        row("Procrastinate", "postgres", drain1=1_300),
        row("Huey", "sqlite", drain1=2_000),
        row("RQ", "redis", drain1=100),
        row("SAQ", "redis", drain1=9_000),
        {"name": "Oban", "store": "postgres", "error": "not installed"},
    ]
    del rows[0]["drain2"]
    found = {(each.aim, each.against): (round(each.ratio, 2), each.met) for each in verdicts(rows)}
    assert found == {
        ("outbound: PostgreSQL drain, 1 process", "PgQueuer on postgres"): (1.5, True),
        ("outbound: PostgreSQL drain, 1 process", "Procrastinate on postgres"): (9.23, False),
        ("outbound: PostgreSQL drain, 1 process", "SAQ on redis"): (1.33, True),
        ("outbound: PostgreSQL enqueue by 100 callers against one caller", "PgQueuer on postgres"): (9.9, False),
        ("outbound: SQLite drain, 1 process", "Huey on sqlite"): (4.5, False),
        ("outbound: idle latency p50, postgres, between two processes", "PgQueuer on postgres"): (2.5, True),
        ("outbound: idle latency p50, sqlite, between two processes", "PgQueuer on postgres"): (0.83, False),
        ("hooks: SQLite drain, 1 process", "Huey on sqlite"): (5.0, True),
        ("hooks: idle latency p50, sqlite, between two processes", "PgQueuer on postgres"): (1.0, True),
    }


def test_a_curve_is_as_flat_as_its_dearest_size_beside_all_smaller_ones() -> None:
    assert flatness({"microseconds": [80.0, 100.0, 90.0]}) == 0.8
    assert flatness({"microseconds": [80.0, 60.0]}) == 1.0
    assert flatness({"microseconds": [400.0, 60.0, 75.0]}) == 0.8


def test_a_peer_that_could_not_be_measured_is_named() -> None:
    rows = [
        row("PgQueuer", "postgres") | {"promise": "at least once"},
        {"name": "Oban", "store": "postgres", "promise": "at least once", "error": "not installed"},
        {"name": "the database itself", "store": "postgres", "promise": "none"},
    ]
    assert [each["name"] for each in unmeasured(rows)] == ["Oban"]


def test_a_miss_without_a_cause_cannot_be_published(tmp_path: Path) -> None:
    file = tmp_path / "causes.json"
    file.write_text(json.dumps({"SQLite drain": "one writer"}))
    causes = Causes(file)
    assert causes.of("SQLite drain, 1 process / Huey on sqlite") == "one writer"
    file.write_text(json.dumps({"SQLite drain": "{ours[cost]:.0f} µs"}))
    assert Causes(file).of("SQLite drain", ours={"cost": 71.6}) == "72 µs"
    with pytest.raises(LookupError, match="PostgreSQL drain"):
        causes.of("outbound: PostgreSQL drain, 1 process / PgQueuer on postgres")


def test_a_picture_shows_each_series_from_its_first_size_to_its_last() -> None:
    drawn = chart("A < B", {"ours": [(10, 50), (1000, 100)]}, across="rows", up="us", logarithmic=True)
    tree = ElementTree.fromstring(drawn)  # noqa: S314 - our own
    line = next(tree.iter("{http://www.w3.org/2000/svg}polyline")).attrib["points"]
    assert line == "70.0,175.0 570.0,40.0"
    assert "A < B" in [text.text for text in tree.iter("{http://www.w3.org/2000/svg}text")]


def test_a_file_system_in_memory_is_recognised() -> None:
    assert file_system_of(Path("/proc/self")) == "proc"
    if Path("/dev/shm").is_mount():  # noqa: S108
        assert file_system_of(Path("/dev/shm/below")) == "tmpfs"  # noqa: S108
