"""What a refused request must not change is looked at row by row, in every table."""

import pytest

from pillarbox.audit import Act, acting_as
from tests.hooks.receivers import query
from tests.hostile.assault import A_RECORD
from tests.hostile.digest import changed
from tests.hostile.stand import open_stand

CHANGES = (
    ("api_keys", "key_id", "name = 'another'"),
    ("hook_outbox", "id", "attempt_count = attempt_count + 1"),
    ("hook_strand", "session_id", "token = token + 1"),
    ("inbound_queue", "id", "status = 'failed'"),
    ("inbound_strand", "session_id", "token = token + 1"),
    ("inbox", "digest", "attempts = attempts + 1"),
    ("message_history", "message_id", "attempt_count = attempt_count + 1"),
    ("message_opt_out", "opt_out_id", "reason = 'another'"),
    ("message_queue", "message_id", "priority = priority + 1"),
    ("operation", "operation_id", "refused = refused + 1"),
    ("operator_action", "action_id", "who = 'another'"),
    ("sealing_key", "id", "key_id = 'another'"),
    ("sessions", "session_id", "title = 'another'"),
    ("tenants", "tenant_id", "name = 'another'"),
)


async def test_a_change_of_one_row_is_noticed_whichever_table_it_is_in(database_url: str) -> None:
    async with open_stand(database_url) as stand:
        await stand.prepare()
        for table, key, change in CHANGES:
            before = stand.rows.look()
            one = f"{key} = (SELECT max({key}) FROM {table})"
            assert query(database_url, f"UPDATE {table} SET {change} WHERE {one} RETURNING 1"), table
            assert changed(before, stand.rows.look()) == {table}


@pytest.mark.parametrize(("outcome", "noticed"), [("done", {"operator_action"}), ("unknown-tenant", set())])
async def test_of_what_operators_tried_only_what_was_done_counts(
    outcome: str, noticed: set[str], database_url: str
) -> None:
    async with open_stand(database_url) as stand:
        before = stand.rows.look()
        with acting_as("ann"):
            await stand.box.audit.note(Act("remove", "tenant", "acme"), outcome)
        assert changed(before, stand.rows.look()) == noticed


async def test_nothing_changes_by_itself_and_reading_changes_nothing(database_url: str) -> None:
    async with open_stand(database_url) as stand:
        before = stand.rows.look()
        await stand.client.get("/v1/status")
        await stand.told()
        assert changed(before, stand.rows.look()) == set()


async def test_a_message_to_somebody_who_opted_out_leaves_a_record_and_nothing_else(database_url: str) -> None:
    async with open_stand(database_url) as stand:
        path = f"/v1/tenants/{stand.names['tenant']}"
        await stand.client.request("POST", f"{path}/opt-outs", {"contact": "hal@example.com"})
        before = stand.rows.look()
        email = {"channel": "email", "to": "hal@example.com", "cc": ["ivy@example.com"], "subject": "a", "text": "b"}
        reply = await stand.client.request("POST", f"{path}/messages", email, headers=[("Idempotency-Key", "one")])
        assert (reply.status, reply.reason) == (409, "opted-out")
        assert changed(before, stand.rows.look()) == A_RECORD
