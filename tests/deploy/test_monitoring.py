"""The dashboard and the alert rules: correct, about metrics that exist, and explained."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from scripts.reference import walk_metrics
from tests.conftest import skip_or_fail
from tests.docs.pages import ROOT
from tests.servers.postgres import ServerMissing

PROMETHEUS = ROOT / "deploy" / "prometheus"
DASHBOARD = ROOT / "deploy" / "grafana" / "pillarbox.json"
_METRIC = re.compile(r"\bpillarbox_\w+")
_ALERT = re.compile(r"- alert: (\w+)")
_TAILS = {"histogram": ("_bucket", "_sum", "_count")}


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        skip_or_fail(ServerMissing("The tests need promtool: install the package prometheus."))
    return found


def series() -> set[str]:
    """Every name that a query may use."""
    return {name + tail for name, kind, *_ in walk_metrics() for tail in _TAILS.get(kind, ("",))}


def alerts() -> list[str]:
    return _ALERT.findall((PROMETHEUS / "alerts.yml").read_text())


def ask(promtool: str, *arguments: str) -> None:
    done = subprocess.run([promtool, *arguments], cwd=PROMETHEUS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_are_what_prometheus_reads(promtool: str) -> None:
    ask(promtool, "check", "rules", "alerts.yml")


def test_each_alert_fires_in_its_trouble_and_none_on_a_calm_day(promtool: str) -> None:
    ask(promtool, "test", "rules", "alerts_test.yml")
    tested = (PROMETHEUS / "alerts_test.yml").read_text()
    assert {name for name in alerts() if f"- name: {name}\n" not in tested} == set()


@pytest.mark.parametrize("file", [PROMETHEUS / "alerts.yml", PROMETHEUS / "alerts_test.yml", DASHBOARD], ids=str)
def test_every_metric_that_is_asked_for_exists(file: Path) -> None:
    asked = set(_METRIC.findall(file.read_text()))
    assert asked
    assert asked - series() == set()


def test_the_dashboard_shows_every_metric() -> None:
    shown = DASHBOARD.read_text()
    assert {name for name, *_ in walk_metrics() if name not in shown} == set()


def test_every_panel_of_the_dashboard_asks_what_prometheus_can_read(promtool: str, tmp_path: Path) -> None:
    panels = [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]
    queries = {panel["title"]: [target["expr"] for target in panel["targets"]] for panel in panels}
    assert [title for title, asked in queries.items() if not asked] == []
    every = [query.replace("$__rate_interval", "5m") for asked in queries.values() for query in asked]
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(every)]
    file = tmp_path / "queries.yml"
    # JSON is YAML.
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    ask(promtool, "check", "rules", str(file))


def test_no_two_panels_of_the_dashboard_lie_on_each_other() -> None:
    taken = set[tuple[int, int]]()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        place = panel["gridPos"]
        columns, rows = range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        cells = {(column, row) for column in columns for row in rows}
        assert not cells & taken, panel["title"]
        assert max(columns) < 24
        taken |= cells


def test_every_alert_is_explained_to_operators() -> None:
    page = (ROOT / "docs" / "guides" / "operating.md").read_text()
    assert {name for name in alerts() if f"\n### {name}\n" not in page} == set()
