"""A thousand hostile events: the agent never notices, and what is stored is whole."""

import asyncio
import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pillarbox.hooks.receiver import is_name
from tests.hooks.receivers import migrate_at, patient_hook, query, spooled, tool
from tests.hostile.corpus.texts import CANARY
from tests.hostile.hook_inputs import HookInput, hook_inputs
from tests.servers.daemon import environment

pytestmark = pytest.mark.long

SEED = int(os.environ.get("PILLARBOX_TEST_HOSTILE_SEED", "20260101"))
RECEIVERS = [sys.executable, "-m", "tests.hostile.forking_hooks"]
ROOT = Path(__file__).parents[2]


def line(given: HookInput) -> str:
    stdin = base64.b64encode(given.stdin).decode()
    return json.dumps({"stdin": stdin, "arguments": given.arguments, "session": given.session})


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("kind", "number"), [("sqlite", 1000), ("postgres", 80)])
def test_hostile_events_never_disturb_the_agent_and_leave_the_database_sound(
    kind: str, number: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url: str = request.getfixturevalue(f"{kind}_url")
    asyncio.run(migrate_at(url))
    given = hook_inputs(number, SEED)
    environ = environment(
        {}, {"XDG_STATE_HOME": str(tmp_path / "state"), "PILLARBOX_HOOKS__SPOOL_DIR": str(tmp_path / "spool")}
    )
    done = subprocess.run(
        [*RECEIVERS, url],
        input="\n".join(map(line, given)).encode(),
        env=environ,
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    answers = [json.loads(answer) for answer in done.stdout.splitlines()]
    assert len(answers) == number
    for one, answer in zip(given, answers, strict=True):
        assert answer == [0, ""], (one.stdin[:200], one.arguments, one.session[:80])

    rows = query(url, "SELECT session_id, seq, event_type, payload FROM hook_outbox ORDER BY id")
    assert number / 4 < len(rows) <= number
    for session, _, event_type, payload in rows:
        whole = json.loads(payload)
        assert "\0" not in payload
        assert is_name(session, 200)
        if event_type == "error" and whole.get("code") == "broken_input":
            assert CANARY not in payload
    for session in {row[0] for row in rows}:
        seqs = [seq for name, seq, _, _ in rows if name == session]
        assert seqs == list(range(1, len(seqs) + 1)), session
    assert spooled(tmp_path / "spool") == []

    patient_hook("--database", url, event=tool("last"), session="s1")
    (last,) = query(url, "SELECT payload FROM hook_outbox ORDER BY id DESC LIMIT 1")
    assert json.loads(last[0])["tool_name"] == "tool-last"
