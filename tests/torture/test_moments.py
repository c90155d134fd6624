"""Between any two commits the tables agree, and where they do not, that is seen in one look."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pillarbox.box import Pillarbox
from pillarbox.outbound.messages import Email
from pillarbox.outbound.model import NewTenant
from pillarbox.settings import load_settings
from tests.outbound.end_to_end import SECRETS_KEY
from torture.caller import connect
from torture.journal import Journal, entries
from torture.moments import Onlooker, look

DAMAGE = (
    ("UPDATE message_history SET status = 'failed'", "in the queue and not open in the history"),
    ("UPDATE message_history SET status = 'delivered'", "ended in the history as its attempts did not"),
    (
        "DELETE FROM message_queue; UPDATE message_history SET status = 'pending'",
        "open in the history and not in the queue",
    ),
    ("UPDATE inbound_strand SET open_count = 2", "a session that counts other messages than it has"),
    ("UPDATE inbound_strand SET open_count = 1, head_seq = 9", "a session that counts other messages than it has"),
    ("UPDATE hook_outbox SET status = 'delivered'", "a session that counts other events than it has"),
)


async def test_tables_that_disagree_are_seen_in_one_look(database_url: str) -> None:
    settings = load_settings(environ={}, secrets={"key": SECRETS_KEY})
    async with Pillarbox.open(database_url, settings=settings) as box:
        await box.tenants.put("acme", NewTenant(providers={"email": {"provider": "sandbox"}}))
        await box.sessions.open(session_id="s", target={"kind": "none"})
        await box.outbound.send("acme", Email(to="somebody@example.com", text="hello"))
        await box.inbound.enqueue(session_id="s", origin="test", content="hello")
        await box.hooks.post("s", "agent_stop")
    assert look(database_url) == {}
    for statement, seen in DAMAGE:
        with closing(connect(database_url)) as connection:
            connection.execute(statement)
        assert seen in look(database_url)


async def test_a_look_that_is_wrong_is_reported_and_not_taken_for_a_struck_database(
    database_url: str, tmp_path: Path
) -> None:
    async with Pillarbox.open(database_url):
        pass
    assert [moment["wrong"] for moment in _seen_at_rest(database_url, tmp_path / "sound.jsonl")] == [{}]
    with closing(connect(database_url)) as connection:
        connection.execute("ALTER TABLE message_queue RENAME TO another_queue")
    moments = _seen_at_rest(database_url, tmp_path / "renamed.jsonl")
    assert [list(moment["wrong"]) for moment in moments] == [["a look that failed"]]
    assert "message_queue" in moments[0]["wrong"]["a look that failed"][0][0]


def test_a_database_that_is_away_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torture.moments._BEFORE_ANOTHER", 0.0)
    for number, url in enumerate((f"sqlite:///{tmp_path}/none/box.db", "postgresql://127.0.0.1:1/none")):
        assert _seen_at_rest(url, tmp_path / f"{number}.jsonl") == []


def _seen_at_rest(database_url: str, path: Path) -> list[dict[str, Any]]:
    Onlooker(database_url, Journal(path)).close()
    return [moment for moment in entries(path) if moment["at_rest"]]
