"""The container, the compose file and the unit: as far as they can be tried without a container engine."""

import configparser
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from pillarbox.api.routes import ENDPOINTS
from pillarbox.cli.main import cli
from pillarbox.settings import Settings, describe_settings
from tests.docs.pages import ROOT

UNIT = ROOT / "deploy" / "systemd" / "pillarbox.service"
VARIABLES = {f"PILLARBOX_{'__'.join([*each.section.split('.'), each.name])}".upper() for each in describe_settings()}
OTHERS = {"PILLARBOX_DATABASE", "PILLARBOX_ADMIN_KEY"}


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in text.splitlines() if line)]


def said(word: str) -> list[str]:
    return [rest for name, rest in instructions() if name == word]


@pytest.fixture(scope="module")
def compose() -> Any:
    return yaml.safe_load((ROOT / "compose.yaml").read_text())


@pytest.fixture(scope="module")
def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(UNIT)
    return parser


def check_command(arguments: list[str]) -> None:
    """Raises where our command line would not take it."""
    command = cli.commands[arguments[0]]
    # With the names of the help option: a command remembers those it was first asked with.
    parent = click.Context(cli, help_option_names=["-h", "--help"])
    command.make_context(arguments[0], arguments[1:], parent=parent, resilient_parsing=False)


def test_the_image_runs_as_a_user_of_its_own() -> None:
    words = [word for word, _ in instructions()]
    assert words.index("USER") < words.index("ENTRYPOINT")
    assert said("USER") == ["pillarbox"]


def test_the_image_starts_a_command_that_exists() -> None:
    assert json.loads(said("ENTRYPOINT")[-1]) == ["pillarbox"]
    check_command(json.loads(said("CMD")[-1]))


def test_the_image_copies_only_what_is_there_and_not_ignored() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = [name for rest in said("COPY") if not rest.startswith("--from") for name in rest.split()[:-1]]
    assert copied
    assert {name for name in copied if not (ROOT / name).exists() or name not in kept} == set()


def test_the_health_check_asks_an_endpoint_that_needs_no_key() -> None:
    command = json.loads(said("HEALTHCHECK")[-1].partition("CMD ")[2])
    asked = re.search(r"http://127\.0\.0\.1:8025(/\w+)", command[2])
    assert asked is not None
    assert [each.path for each in ENDPOINTS if each.path == asked[1] and not each.needs_key] == [asked[1]]
    refused = subprocess.run([sys.executable, *command[1:]], capture_output=True, check=False)
    assert refused.returncode != 0  # nobody listens there now, and that is unhealthy


def test_the_variables_of_the_image_and_the_compose_file_are_settings(compose: Any) -> None:
    text = (ROOT / "Dockerfile").read_text() + (ROOT / "compose.yaml").read_text()
    assert set(re.findall(r"PILLARBOX_[A-Z_]+", text)) - VARIABLES - OTHERS == set()


def test_two_nodes_share_a_database_and_its_keys(compose: Any) -> None:
    nodes = [service for service in compose["services"].values() if service.get("image") == "pillarbox"]
    assert len(nodes) == 2
    assert nodes[0]["environment"] == nodes[1]["environment"]
    assert {"PILLARBOX_DATABASE", "PILLARBOX_ADMIN_KEY", "PILLARBOX_SECRETS__KEY"} <= nodes[0]["environment"].keys()
    assert len({node["hostname"] for node in nodes}) == len({node["ports"][0] for node in nodes}) == 2
    for node in nodes:
        check_command(node["command"])


def test_a_container_and_a_unit_get_longer_to_stop_than_deliveries_do(
    compose: Any, unit: configparser.ConfigParser
) -> None:
    grace = Settings().shutdown.grace_seconds
    assert float(compose["services"]["box-1"]["stop_grace_period"].rstrip("s")) > grace
    assert float(unit["Service"]["TimeoutStopSec"]) > grace


def test_the_unit_starts_a_command_that_exists(unit: configparser.ConfigParser) -> None:
    program, *arguments = unit["Service"]["ExecStart"].split()
    assert Path(program).name == "pillarbox"
    check_command(arguments)


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("This machine has no systemd-analyze.")
    here = tmp_path / UNIT.name
    here.write_text(UNIT.read_text().replace("/usr/local/bin/pillarbox", shutil.which("true") or "/bin/true"))
    done = subprocess.run([analyze, "verify", here], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
