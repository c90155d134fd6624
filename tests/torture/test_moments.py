"""Between any two commits the tables agree, and where they do not, that is seen in one look."""

from contextlib import closing

from pillarbox.box import Pillarbox
from pillarbox.outbound.messages import Email
from pillarbox.outbound.model import NewTenant
from pillarbox.settings import load_settings
from tests.outbound.end_to_end import SECRETS_KEY
from torture.caller import connect
from torture.moments import look

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
