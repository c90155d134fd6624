import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click.testing
import pytest

from pillarbox.cli.main import cli
from tests.servers.daemon import key_for

Run = Callable[..., click.testing.Result]
Ask = Callable[..., Any]


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command reads its folder's pillarbox.toml and the environment; here both hold nothing."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("PILLARBOX_") and not name.startswith("PILLARBOX_TEST_"):
            monkeypatch.delenv(name)


@pytest.fixture
def run(database_url: str) -> Run:
    """Run a command on a fresh database, each of them in turn."""

    def run(*arguments: str, stdin: str | bytes | None = None) -> click.testing.Result:
        runner = click.testing.CliRunner(env=key_for(database_url))
        return runner.invoke(cli, ["--database", database_url, *arguments], input=stdin)

    return run


@pytest.fixture
def ask(run: Run) -> Ask:
    """Run a command that should succeed, and read its JSON."""

    def ask(*arguments: str, stdin: str | bytes | None = None) -> Any:
        done = run(*arguments, "--json", stdin=stdin)
        assert (done.exit_code, done.stderr) == (0, ""), done.output
        assert done.stdout.count("\n") == 1
        return json.loads(done.stdout)

    return ask
