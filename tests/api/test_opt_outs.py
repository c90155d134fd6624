from typing import Any

from tests.api.client import Client

EMAIL = {"channel": "email", "to": "ann@example.com", "subject": "c4n4ry", "text": "c4n4ry"}


async def test_an_opt_out_is_made_once_in_any_spelling(client: Client, acme: str) -> None:
    first = await client.post(f"{acme}/opt-outs", {"contact": " Ann@Example.COM ", "reason": "asked"})
    assert (first.status, list(first.json())) == (201, ["id", "contact", "channel", "reason", "created_at"])
    assert (first.json()["contact"], first.json()["channel"]) == ("ann@example.com", "all")
    again = await client.post(f"{acme}/opt-outs", {"contact": "ann@example.com"})
    assert (again.status, again.json()) == (200, first.json())
    other = await client.post(f"{acme}/opt-outs", {"contact": "ann@example.com", "channel": "email"})
    assert (other.status, other.json()["id"] != first.json()["id"]) == (201, True)
    assert (await client.get(f"{acme}/opt-outs")).json()["items"] == [first.json(), other.json()]


async def test_numbers_compare_without_blanks_and_dashes(client: Client, acme: str) -> None:
    await client.post(f"{acme}/opt-outs", {"contact": "+1 (500) 555-0006", "channel": "sms"})
    refused = await client.post(f"{acme}/messages", {"channel": "sms", "to": "+15005550006", "text": "x"})
    assert (refused.status, refused.reason) == (409, "opted-out")


async def test_a_removed_opt_out_lets_messages_go_again(client: Client, acme: str) -> None:
    opt_out = (await client.post(f"{acme}/opt-outs", {"contact": "ann@example.com", "channel": "email"})).json()
    assert (await client.post(f"{acme}/messages", EMAIL)).reason == "opted-out"
    gone = await client.request("DELETE", f"{acme}/opt-outs/{opt_out['id']}")
    assert (gone.status, gone.body) == (204, b"")
    assert (await client.post(f"{acme}/messages", EMAIL)).status == 202
    assert (await client.request("DELETE", f"{acme}/opt-outs/{opt_out['id']}")).reason == "not-found"


async def test_an_opt_out_of_one_channel_leaves_the_others(client: Client, acme: str) -> None:
    await client.post(f"{acme}/opt-outs", {"contact": "ann@example.com", "channel": "sms"})
    assert (await client.post(f"{acme}/messages", EMAIL)).status == 202


async def test_opt_outs_are_listed_a_page_at_a_time(client: Client, acme: str) -> None:
    made = [(await client.post(f"{acme}/opt-outs", {"contact": f"{name}@example.com"})).json()["id"] for name in "abc"]
    page = (await client.get(f"{acme}/opt-outs?limit=2")).json()
    rest = (await client.get(f"{acme}/opt-outs?limit=2&cursor={page['next_cursor']}")).json()
    assert [item["id"] for item in page["items"] + rest["items"]] == made
    assert rest["next_cursor"] is None


async def test_a_bad_opt_out_names_its_field(client: Client, acme: str) -> None:
    faults: list[tuple[dict[str, Any], str]] = [
        ({}, "contact"),
        ({"contact": None}, "contact"),
        ({"contact": ""}, "contact"),
        ({"contact": "a@b@c"}, "contact"),
        ({"contact": "a\nb@example.com"}, "contact"),
        ({"contact": "ann", "channel": "email"}, "contact"),
        ({"contact": "ann@example.com", "channel": "sms"}, "contact"),
        ({"contact": "ann@example.com", "channel": "c4n4ry"}, "channel"),
        ({"contact": "ann@example.com", "reason": "x" * 1001}, "reason"),
        ({"contact": "ann@example.com", "reason": "\0"}, "reason"),
        ({"contact": "ann@example.com", "nothing": 1}, "nothing"),
    ]
    for body, field in faults:
        refused = await client.post(f"{acme}/opt-outs", body)
        assert (body, refused.fields) == (body, [field])
        assert b"c4n4ry" not in refused.body
    for contact in (None, "", ["ann@example.com"]):
        assert (await client.post(f"{acme}/forget", {"contact": contact})).fields == ["contact"]


async def test_an_unknown_tenant_is_404(client: Client) -> None:
    contact = {"contact": "ann@example.com"}
    for method, path, body in (
        ("GET", "opt-outs", None),
        ("POST", "opt-outs", contact),
        ("DELETE", "opt-outs/x", None),
        ("POST", "forget", contact),
    ):
        reply = await client.request(method, f"/v1/tenants/nobody/{path}", body)
        assert (path, reply.status, reply.reason) == (path, 404, "not-found")


async def test_a_forgotten_contact_is_gone_but_stays_opted_out(client: Client, acme: str) -> None:
    message = (await client.post(f"{acme}/messages", EMAIL)).json()["message_id"]
    await client.post(f"{acme}/opt-outs", {"contact": "ann@example.com", "channel": "email"})
    forgotten = await client.post(f"{acme}/forget", {"contact": "ANN@example.com"})
    assert (forgotten.status, forgotten.json()) == (200, {"forgotten": 1})
    shown = await client.get(f"{acme}/messages/{message}")
    assert (shown.json()["to_address"], shown.json()["status"]) == (None, "canceled")
    listed = await client.get(f"{acme}/opt-outs")
    assert listed.json()["items"][0]["contact"] is None
    for reply in (shown, listed, await client.get(f"{acme}/messages")):
        assert b"c4n4ry" not in reply.body
        assert b"ann@" not in reply.body
    assert (await client.post(f"{acme}/messages", EMAIL)).reason == "opted-out"
    assert (await client.post(f"{acme}/messages/{message}/retry")).reason == "not-retryable"
