import re
from datetime import UTC, datetime, timedelta

import pytest

from pillarbox.box import Pillarbox
from pillarbox.errors import InvalidInput, NotFound
from tests.api.client import Client

BAD: list[tuple[object, str]] = [
    ({"tenant": "Acme"}, "tenant"),
    ({"tenant": ""}, "tenant"),
    ({"tenant": "-acme"}, "tenant"),
    ({"tenant": "acme\n"}, "tenant"),
    ({"tenant": "a" * 64}, "tenant"),
    ({"name": "a\nb"}, "name"),
    ({"name": "a\0b"}, "name"),
    ({"name": ""}, "name"),
    ({"expires_at": "2030-01-01T00:00:00"}, "expires_at"),
    ({"expires_at": "soon"}, "expires_at"),
    ({"expires_at": 1}, "expires_at"),
    ({"expires_at": "9999-12-31T23:59:59-23:59"}, "expires_at"),
    ({"expires_at": "0001-01-01T00:00:00+23:59"}, "expires_at"),
    ({"key": "mine"}, "key"),
]


async def test_a_key_is_shown_once_and_stored_only_as_its_digest(client: Client) -> None:
    made = (await client.post("/v1/keys", {"tenant": "acme", "name": "ci"})).json()
    assert re.fullmatch(r"pbx_[A-Za-z0-9_-]{43}", made["key"])
    assert (made["tenant"], made["name"]) == ("acme", "ci")
    assert made["created_at"].endswith("Z")
    listed = await client.get("/v1/keys")
    assert made["key"].encode() not in listed.body
    (item,) = listed.json()["items"]
    assert (item["key_id"], item["revoked_at"], item["expires_at"]) == (made["key_id"], None, None)


async def test_a_bad_request_for_a_key_names_its_field(client: Client) -> None:
    for body, field in BAD:
        assert (body, (await client.post("/v1/keys", body)).fields) == (body, [field])


async def test_keys_are_listed_in_pages(client: Client, box: Pillarbox) -> None:
    made = [(await box.keys.create(name=f"k{number}")).key_id for number in range(5)]
    first = (await client.get("/v1/keys?limit=3")).json()
    second = (await client.get(f"/v1/keys?limit=3&cursor={first['next_cursor']}")).json()
    assert [item["key_id"] for item in first["items"] + second["items"]] == made
    assert second["next_cursor"] is None


async def test_a_key_is_found_while_it_is_valid(box: Pillarbox) -> None:
    made = await box.keys.create(tenant="acme", expires_at=datetime.now(UTC) + timedelta(hours=1))
    found = await box.keys.find(made.key)
    assert found is not None
    assert (found.key_id, found.tenant) == (made.key_id, "acme")
    assert await box.keys.find(made.key[:-1] + "~") is None
    assert await box.keys.find("") is None
    await box.keys.revoke(made.key_id)
    assert await box.keys.find(made.key) is None


async def test_another_process_sees_a_revocation_within_the_second(box: Pillarbox, database_url: str) -> None:
    async with Pillarbox.open(database_url, settings=box.settings) as other:
        made = await box.keys.create()
        assert await other.keys.find(made.key) is not None
        await box.keys.revoke(made.key_id)
        later = box.database.clock.monotonic() + 1
        while await other.keys.find(made.key) is not None:
            assert box.database.clock.monotonic() < later + 1


async def test_admin_keys_are_counted_while_they_work(box: Pillarbox) -> None:
    assert not await box.keys.any_admin()
    await box.keys.create(tenant="acme")
    await box.keys.create(expires_at=datetime(2020, 1, 1, tzinfo=UTC))
    assert not await box.keys.any_admin()
    made = await box.keys.create()
    assert await box.keys.any_admin()
    await box.keys.revoke(made.key_id)
    assert not await box.keys.any_admin()


async def test_what_is_not_there_cannot_be_revoked(box: Pillarbox) -> None:
    with pytest.raises(NotFound):
        await box.keys.revoke("nothing")
    with pytest.raises(InvalidInput, match="tenant"):
        await box.keys.create(tenant="A")
