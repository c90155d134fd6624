"""About a minute of trouble for each database, with every kind of it that can be made here; `make torture` takes longer."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = 60
EVERYWHERE = {"killed", "paused", "sigterm", "target", "caller killed", "receiver killed", "clock"}
KINDS = {
    "sqlite": EVERYWHERE | {"full disk", "fsync error"},
    "postgres": EVERYWHERE | {"postgres restarted", "postgres away", "cut", "black hole", "commit cut"},
}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torture", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.timeout(420)
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_under_seeded_trouble_every_promise_of_all_pipes_is_kept(database: str, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    asked = ("--database", database, "--minutes", f"{SECONDS / 60}", "--light", "--lease", "10", "--every-kind")
    done = run(*asked, "--result", str(result))
    assert done.stdout.startswith("seed "), done.stderr
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(result.read_text())
    assert found["violations"] == {}
    assert set(found["acknowledged"]) >= {"inbound", "hooks", "outbound", "inbox"}
    assert sum(found["ended"].values()) == sum(found["acknowledged"].values())
    left_out = {sentence.partition(":")[0] for sentence in found["left out"]}
    assert {kind for kind, count in found["faults"].items() if count} >= KINDS[database] - left_out
    assert min(found["looks"].values()) > 0
    assert found["commit"]
    assert found["machine"]["cores"]
