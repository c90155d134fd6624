"""The interpreter that has the peers, which versions there are, and what the machine is and does meanwhile."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.disk import file_system_of

ROOT = Path(__file__).parents[1]
_VERSIONS = """
import json, platform
from importlib.metadata import distributions
print(json.dumps({d.metadata["Name"].lower(): d.version for d in distributions()} | {"python": platform.python_version()}))
"""


def peers_folder() -> Path:
    """The environment of the peers: `PILLARBOX_BENCH_PEERS`, or the one that `make bench` makes inside ours."""
    given = os.environ.get("PILLARBOX_BENCH_PEERS")
    return Path(given) if given else ROOT / ".venv" / "peers"


def python_for(package: str) -> str:
    """The interpreter for a row: ours for our own, for a peer its own where it bears no other beside it, else the peers'."""
    shared = peers_folder()
    for folder in (shared.with_name(f"{shared.name}-{package}"), shared) if package else ():
        if (folder / "bin" / "python").exists():
            return str(folder / "bin" / "python")
    return sys.executable


@cache
def versions_of(python: str) -> dict[str, str]:
    """What an environment has installed."""
    done = subprocess.run([python, "-c", _VERSIONS], check=True, capture_output=True, text=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def processor() -> str:
    """The processor's model as Linux calls it, or what is known elsewhere."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or "unknown"


def circumstances(seed: int, folder: Path) -> dict[str, Any]:
    """What a result file says of the run: seed, commit, machine, versions, and how busy the machine already was."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    changed = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "src", "bench"], cwd=ROOT, check=False).returncode
    ours = ("apsw", "psycopg", "uvloop")
    return {
        "seed": seed,
        "commit": commit.stdout.strip() + ("+changes" if changed else ""),
        "machine": {
            "cores": os.cpu_count(),
            "architecture": platform.machine(),
            "processor": processor(),
            "system": platform.system(),
            "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
            "disk": file_system_of(folder),
            "load_before": round(os.getloadavg()[0], 2),
        },
        "versions": {"python": platform.python_version()} | {name: version(name) for name in ours},
    }
