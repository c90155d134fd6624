import json
import subprocess
import sys

from pillarbox.box import Pillarbox
from pillarbox.settings import Settings
from tests.servers.daemon import environment


def show(url: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "pillarbox", "inbox", "show", "--database", url, *arguments]
    return subprocess.run(command, env=environment({}, {}), capture_output=True, text=True, check=False)


async def test_a_key_is_shown_as_the_endpoint_has_it(sqlite_url: str) -> None:
    async with Pillarbox.open(sqlite_url, settings=Settings()) as box:
        await box.inbox.mark_processed("orders/1: 100%")
    answer = json.loads(show(sqlite_url, "--json", "orders/1: 100%").stdout)
    assert answer.keys() == {"status", "attempts", "firstSeen", "lastSeen"}
    assert (answer["status"], answer["attempts"]) == ("Processed", 1)
    unknown = show(sqlite_url, "another")
    assert (unknown.returncode, unknown.stdout.split()[:2]) == (0, ["status", "Unknown"])
    refused = show(sqlite_url, "")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "key" in refused.stderr
