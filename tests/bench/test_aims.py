import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bench.aims import by_the_clock, flatness, latencies, unmeasured, verdicts
from bench.beside import cell, latency_lines, table_lines
from bench.causes import Causes
from bench.disk import file_system_of
from bench.page import read, soak_section
from bench.picture import chart


def row(name: str, store: str, **figures: float) -> dict[str, Any]:
    usual = {"single": 100.0, "together": 1000.0, "drain1": 1000.0, "drain2": 1000.0, "p50": 5.0}
    return {"name": name, "store": store, "promise": "at least once", **usual, **figures}


def some_rows() -> list[dict[str, Any]]:
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
        {"name": "Oban", "store": "postgres", "promise": "at least once", "error": "not installed"},
    ]
    del rows[0]["drain2"], rows[0]["p50"]
    rows[0]["promise"] = "none"
    return rows


def test_every_aim_is_held_against_the_peer_it_names() -> None:
    found = {(each.aim, each.against): (round(each.ratio, 2), each.met) for each in verdicts(some_rows())}
    assert found == {
        ("outbound: PostgreSQL drain, 1 process", "PgQueuer on postgres"): (1.5, True),
        ("outbound: PostgreSQL drain, 1 process", "Procrastinate on postgres"): (9.23, False),
        ("outbound: PostgreSQL drain, 1 process", "the fastest of the Redis peers (SAQ)"): (1.33, True),
        (
            "outbound: PostgreSQL enqueue, 100 callers",
            "one caller of PgQueuer on postgres, the best there",
        ): (9.9, False),
        ("outbound: SQLite drain, 1 process", "Huey on sqlite"): (4.5, False),
        ("hooks: SQLite drain, 1 process", "Huey on sqlite"): (5.0, True),
    }


def test_idle_latency_is_held_against_every_peer_that_was_measured() -> None:
    rows = some_rows()
    found = {(each.aim, each.against): (round(each.ratio, 2), each.met) for each in latencies(rows)}
    peers = {"PgQueuer on postgres", "Procrastinate on postgres", "Huey on sqlite", "RQ on redis", "SAQ on redis"}
    assert found == {
        (f"{ours}: idle latency p50, {store}", peer): verdict
        for ours, store, verdict in (
            ("outbound", "postgres", (2.5, True)),
            ("outbound", "sqlite", (0.83, False)),
            ("hooks", "sqlite", (1.0, True)),
        )
        for peer in peers
    }


def test_the_page_says_what_was_not_measured_and_leaves_blank_what_there_is_not(tmp_path: Path) -> None:
    rows = some_rows()
    file = tmp_path / "causes.json"
    file.write_text(json.dumps({"outbound": "the call takes {ours[call]:.1f} ms, a commit {made[commit]:.1f} ms"}))
    document = {"command": "python -m bench table --quick", "rows": rows}
    beside, waits = ["\n".join(lines(document, Causes(file))).splitlines() for lines in (table_lines, latency_lines)]
    assert "| every aim | Oban on postgres | | | not measured: not installed |" in beside
    oban = next(line for line in waits if line.startswith("| Oban on postgres"))
    assert oban.count("not measured") == oban.count("|") - 2, "every cell but the name"
    assert waits[-1].startswith(
        "- outbound on sqlite, behind PgQueuer on postgres, Procrastinate on postgres, Huey on sqlite"
    )
    assert waits[-1].endswith(": the call takes (not measured) ms, a commit (not measured) ms.")
    huey, sqlite = rows[6], {"name": "the database itself", "store": "sqlite", "promise": "none"}
    assert [cell(huey, column) for column in ("bulk", "cost_server", "cost_worker")] == ["", "", "not measured"]
    assert cell(sqlite, "drain2") == ""


def test_a_curve_is_as_flat_as_its_dearest_size_beside_all_smaller_ones() -> None:
    assert flatness({"microseconds": [80.0, 100.0, 90.0]}) == 0.8
    assert flatness({"microseconds": [80.0, 60.0]}) == 1.0
    assert flatness({"microseconds": [400.0, 60.0, 75.0]}) == 0.8


def test_the_clock_compares_the_largest_size_with_the_best_smaller_one() -> None:
    assert by_the_clock({"rates": [100.0, 200.0, 50.0, 150.0]}) == 0.75


def test_a_peer_that_could_not_be_measured_is_named() -> None:
    rows = [
        row("PgQueuer", "postgres"),
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


@pytest.mark.parametrize(("mebibytes", "said"), [(85.8, "90.0 MB (85.8 MiB)"), (85.9, "90.1 MB (85.9 MiB)")])
def test_idle_memory_is_held_against_megabytes_of_a_million_bytes(mebibytes: float, said: str, tmp_path: Path) -> None:
    file = tmp_path / "causes.json"
    file.write_text(json.dumps({"idle memory": "it is the server"}))
    text = "\n".join(soak_section(read("soak") | {"idle_mib": mebibytes}, Causes(file)))
    told = "met" if mebibytes < 85.83 else "missed: it is the server"
    assert f"holds {said} when idle; the aim is below 90 MB: {told}.\n" in text


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
