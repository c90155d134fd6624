from typing import Any

from pillarbox.box import Pillarbox
from pillarbox.errors import PermanentError
from pillarbox.hooks.model import HookEvent
from tests.api.client import Client
from tests.api.running import until, working

EVENT = {"session_id": "s1", "event_type": "tool_use", "payload": {"tool": "ls"}}


async def post(client: Client, **fields: Any) -> int:
    reply = await client.post("/v1/hooks", EVENT | fields)
    assert reply.status == 202
    number: int = reply.json()["id"]
    return number


async def test_an_event_is_on_disk_before_the_answer(client: Client, session: str) -> None:
    reply = await client.post("/v1/hooks", EVENT)
    assert (reply.status, list(reply.json())) == (202, ["id"])
    shown = (await client.get(f"/v1/hooks/{reply.json()['id']}")).json()
    assert (shown["session_id"], shown["event_type"], shown["payload"]) == ("s1", "tool_use", {"tool": "ls"})
    assert (shown["status"], shown["seq"], shown["attempt_count"], shown["delivered_at"]) == ("pending", 1, 0, None)
    assert shown["created_at"].endswith("Z")
    assert (await client.get("/v1/status")).json()["hooks"]["pending"] == 1


async def test_a_payload_may_be_left_out(client: Client, session: str) -> None:
    reply = await client.post("/v1/hooks", {"session_id": "s1", "event_type": "agent_stop"})
    assert (await client.get(f"/v1/hooks/{reply.json()['id']}")).json()["payload"] == {}


async def test_an_event_of_an_unknown_session_is_404(client: Client) -> None:
    reply = await client.post("/v1/hooks", EVENT)
    assert (reply.status, reply.reason) == (404, "not-found")


async def test_events_are_listed_by_session_and_status(client: Client, session: str) -> None:
    await client.post("/v1/sessions", {"session_id": "s2", "target": {"kind": "python", "name": "nobody"}})
    for number in range(6):
        await post(client, session_id=f"s{1 + number % 2}", payload={"n": number})
    for query, expected in (("", "012345"), ("session_id=s1", "024"), ("session_id=s2&status=pending", "135")):
        seen = ""
        cursor: str | None = ""
        while cursor is not None:
            page = (await client.get(f"/v1/hooks?{query}&limit=2&cursor={cursor}")).json()
            seen += "".join(str(item["payload"]["n"]) for item in page["items"])
            cursor = page["next_cursor"]
        assert seen == expected
    for status in ("processing", "delivered", "failed", "superseded", "dead"):
        assert (await client.get(f"/v1/hooks?status={status}")).json() == {"items": [], "next_cursor": None}
    assert (await client.get("/v1/hooks?status=gone")).fields == ["status"]
    assert (await client.get("/v1/hooks?session_id=%00")).fields == ["session_id"]


async def test_a_cursor_of_events_belongs_to_its_list(client: Client, session: str) -> None:
    for _ in range(3):
        await post(client)
    cursor = (await client.get("/v1/hooks?limit=1")).json()["next_cursor"]
    assert (await client.get(f"/v1/hooks?session_id=s1&cursor={cursor}")).fields == ["cursor"]
    assert (await client.get(f"/v1/hooks?cursor={cursor}")).status == 200


async def test_a_dead_event_is_listed_and_goes_again(box: Pillarbox, client: Client, session: str) -> None:
    refusals = [PermanentError("no such ticket")]

    @box.hooks.on("agent_stop")
    def refuse_once(event: HookEvent) -> None:
        if refusals:
            raise refusals.pop()

    async with working(box):
        number = await post(client, event_type="agent_stop")
        path = f"/v1/hooks/{number}"
        dead = await until(client, path, lambda event: event["status"] == "dead")
        assert "no such ticket" in dead["last_error"]
        assert [item["id"] for item in (await client.get("/v1/hooks?status=dead")).json()["items"]] == [number]
        again = await client.post(f"{path}/retry")
        assert (again.status, again.json()["id"]) == (200, number)
        await until(client, path, lambda event: event["status"] == "delivered")
    refused = await client.post(f"{path}/retry")
    assert (refused.status, refused.reason) == (409, "already-ended")
    assert (await client.post(f"{path}/retry", {"why": 1})).fields == ["why"]


async def test_a_superseded_event_names_what_came_instead(box: Pillarbox, client: Client, session: str) -> None:
    first, last = await post(client, payload={"n": 1}), await post(client, payload={"n": 2})
    async with working(box):
        await until(client, f"/v1/hooks/{last}", lambda event: event["status"] == "delivered")
    shown = (await client.get(f"/v1/hooks/{first}")).json()
    assert (shown["status"], shown["superseded_by"], shown["superseded_by_type"]) == ("superseded", last, "tool_use")


async def test_a_session_shows_what_its_agent_is_doing(box: Pillarbox, client: Client, session: str) -> None:
    fresh = (await client.get("/v1/sessions/s1")).json()
    assert (fresh["agent_state"], fresh["last_activity"]) == (None, None)
    async with working(box):
        number = await post(client, event_type="user_prompt_submit", payload={"prompt": "hello"})
        event = await until(client, f"/v1/hooks/{number}", lambda event: event["status"] == "delivered")
    shown = (await client.get("/v1/sessions/s1")).json()
    assert (shown["agent_state"]["turn"], shown["agent_state"]["last_user_input"]) == ("working", "hello")
    assert shown["agent_state"]["last_activity"] == shown["last_activity"] == event["created_at"]
