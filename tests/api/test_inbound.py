from tests.api.client import Client

MESSAGE = {"session_id": "s1", "origin": "test", "content": "hello"}


async def test_a_message_is_on_disk_before_the_answer(client: Client, session: str) -> None:
    reply = await client.post("/v1/inbound", MESSAGE | {"payload": {"n": 1}, "actor_name": "Ada"})
    assert reply.status == 202
    stored = reply.json()
    assert stored == {"id": stored["id"], "seq": 1, "duplicate": False, "status": "pending"}
    shown = (await client.get(f"/v1/inbound/{stored['id']}")).json()
    assert (shown["content"], shown["payload_json"], shown["actor_name"]) == ("hello", '{"n": 1}', "Ada")
    assert shown["created_at"].endswith("Z")
    assert (shown["status"], shown["attempt_count"], shown["processed_at"]) == ("pending", 0, None)


async def test_a_duplicate_answers_with_the_first_ones_id(client: Client, session: str) -> None:
    first = await client.post("/v1/inbound", MESSAGE | {"source_message_id": "m1"})
    again = await client.post("/v1/inbound", MESSAGE | {"source_message_id": "m1"})
    assert (first.status, again.status) == (202, 200)
    assert again.json() == first.json() | {"duplicate": True}
    other = await client.post("/v1/inbound", MESSAGE | {"source_message_id": "m1", "content": "other"})
    assert (other.status, other.reason) == (409, "duplicate-mismatch")


async def test_an_unknown_session_is_404(client: Client) -> None:
    reply = await client.post("/v1/inbound", MESSAGE)
    assert (reply.status, reply.reason) == (404, "not-found")


async def test_messages_are_listed_by_session_and_status(client: Client, session: str) -> None:
    await client.post("/v1/sessions", {"session_id": "s2", "target": {"kind": "python", "name": "nobody"}})
    for number in range(6):
        body = MESSAGE | {"session_id": f"s{1 + number % 2}", "content": str(number)}
        assert (await client.post("/v1/inbound", body)).status == 202
    for query, expected in (("", "012345"), ("session_id=s1", "024"), ("session_id=s2&status=pending", "135")):
        seen = ""
        cursor: str | None = ""
        while cursor is not None:
            page = (await client.get(f"/v1/inbound?{query}&limit=2&cursor={cursor}")).json()
            seen += "".join(item["content"] for item in page["items"])
            cursor = page["next_cursor"]
        assert seen == expected
    assert (await client.get("/v1/inbound?status=delivered")).json() == {"items": [], "next_cursor": None}
    assert (await client.get("/v1/inbound?status=gone")).fields == ["status"]
    assert (await client.get("/v1/inbound?session_id=%00")).fields == ["session_id"]


async def test_a_cursor_belongs_to_its_list(client: Client, session: str) -> None:
    for _ in range(3):
        await client.post("/v1/inbound", MESSAGE)
    cursor = (await client.get("/v1/inbound?limit=1")).json()["next_cursor"]
    assert (await client.get(f"/v1/inbound?session_id=s1&cursor={cursor}")).fields == ["cursor"]
    assert (await client.get(f"/v1/sessions?cursor={cursor}")).fields == ["cursor"]
    assert (await client.get(f"/v1/inbound?cursor={cursor}")).status == 200


async def test_an_operator_retries_and_expires(client: Client, session: str) -> None:
    stored = (await client.post("/v1/inbound", MESSAGE)).json()
    path = f"/v1/inbound/{stored['id']}"
    assert (await client.post(f"{path}/retry")).json()["status"] == "pending"
    expired = await client.post(f"{path}/expire", {})
    assert (expired.status, expired.json()["status"]) == (200, "expired")
    for act in ("retry", "expire"):
        refused = await client.post(f"{path}/{act}")
        assert (refused.status, refused.reason) == (409, "already-ended")
    assert (await client.post(f"{path}/expire", {"why": 1})).fields == ["why"]
