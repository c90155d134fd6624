"""/v1/inbox, byte for byte."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

import jsonschema
import pytest

from pillarbox.api.app import create_app
from pillarbox.box import Pillarbox
from pillarbox.settings import Http, Settings
from tests.api.client import ADMIN_KEY, Client, Reply
from tests.inbox.keys import AWKWARD_KEYS

INBOX = "/v1/inbox"


@pytest.fixture
async def box(database_url: str) -> AsyncIterator[Pillarbox]:
    async with Pillarbox.open(database_url, settings=Settings(), node="here") as opened:
        yield opened


@pytest.fixture
def client(box: Pillarbox) -> Client:
    return Client(create_app(box, admin_key=ADMIN_KEY))


async def ask(client: Client, verb: str, **body: Any) -> Any:
    reply = await client.post(f"{INBOX}/{verb}", body)
    assert reply.status == 200, reply.body
    return reply.json()


async def test_the_life_of_a_key(client: Client) -> None:
    begun = await ask(client, "try-begin", key="k", owner="me", leaseSeconds=45, fingerprint="f")
    assert begun.keys() == {"status", "leaseId", "expiresAt"}
    assert begun["status"] == "Acquired"
    assert begun["expiresAt"].endswith("Z")
    lease = {"key": "k", "leaseId": begun["leaseId"]}
    assert await ask(client, "try-begin", key="k") == {"status": "Busy"}
    assert await ask(client, "try-begin", key="k", fingerprint="g") == {"status": "Mismatch"}
    extended = await ask(client, "extend", **lease, leaseSeconds=60)
    assert extended.keys() == {"status", "expiresAt"}
    assert extended["status"] == "Extended"
    assert extended["expiresAt"] > begun["expiresAt"]
    shown = (await client.get(f"{INBOX}/k")).json()
    assert shown.keys() == {"status", "attempts", "firstSeen", "lastSeen", "leaseUntil"}
    assert (shown["status"], shown["attempts"], shown["leaseUntil"]) == ("Leased", 1, extended["expiresAt"])
    assert await ask(client, "mark-processed", **lease, result={"n": [1]}) == {"status": "Processed"}
    assert await ask(client, "mark-processed", **lease) == {"status": "Processed"}
    assert await ask(client, "try-begin", key="k") == {"status": "Processed", "result": {"n": [1]}}
    for verb in ("extend", "release"):
        assert await ask(client, verb, **lease) == {"status": "LeaseLost"}
    done = (await client.get(f"{INBOX}/k")).json()
    assert done.keys() == {"status", "attempts", "firstSeen", "lastSeen"}
    assert done["status"] == "Processed"


async def test_a_released_key_is_free(client: Client) -> None:
    begun = await ask(client, "try-begin", key="k")
    lease = {"key": "k", "leaseId": begun["leaseId"]}
    for _ in range(2):
        assert await ask(client, "release", **lease) == {"status": "Released"}
    assert (await client.get(f"{INBOX}/k")).json()["status"] == "Free"
    assert (await ask(client, "try-begin", key="k"))["status"] == "Acquired"
    assert await ask(client, "release", **lease) == {"status": "LeaseLost"}


async def test_an_unknown_key_has_a_word_of_its_own(client: Client) -> None:
    assert (await client.get(f"{INBOX}/nobody")).json() == {
        "status": "Unknown",
        "attempts": 0,
        "firstSeen": None,
        "lastSeen": None,
    }
    for verb in ("extend", "mark-processed", "release"):
        assert await ask(client, verb, key="nobody", leaseId="none") == {"status": "LeaseLost"}
    assert (await client.get(f"{INBOX}/nobody")).json()["status"] == "Unknown"


@pytest.mark.parametrize(("asked", "given"), [(None, 60), (1, 30), (-1, 30), (45.5, 45.5), (1e300, 120)])
async def test_a_lease_is_clamped_and_its_true_end_told(client: Client, asked: float | None, given: float) -> None:
    more = {} if asked is None else {"leaseSeconds": asked}
    begun = await ask(client, "try-begin", key="k", **more)
    shown = (await client.get(f"{INBOX}/k")).json()
    lasts = datetime.fromisoformat(begun["expiresAt"]) - datetime.fromisoformat(shown["firstSeen"])
    assert lasts == timedelta(seconds=given)


async def test_any_key_works_percent_encoded_slashes_included(client: Client) -> None:
    for key in AWKWARD_KEYS:
        begun = await ask(client, "try-begin", key=key)
        assert begun["status"] == "Acquired", key
        shown = await client.get(f"{INBOX}/{quote(key, safe='')}")
        assert (shown.status, shown.json()["status"]) == (200, "Leased"), key
        assert await ask(client, "mark-processed", key=key, leaseId=begun["leaseId"]) == {"status": "Processed"}


@pytest.mark.parametrize("key", ["%00", "a%00b", "%FF", "%ED%A0%80"])
async def test_a_key_that_is_no_text_is_refused_by_name(client: Client, key: str) -> None:
    reply = await client.get(f"{INBOX}/{key}")
    assert (reply.status, reply.fields) == (422, ["key"])


async def test_a_begin_whose_answer_was_lost_may_be_repeated(client: Client) -> None:
    def again(key: str) -> Any:
        return client.post(f"{INBOX}/try-begin", {"key": "k"}, headers=[("pillarbox-lease-id", key)])

    first, second = (await again("one")).json(), (await again('"one"')).json()
    assert first == second == {"status": "Acquired", "leaseId": "one", "expiresAt": first["expiresAt"]}
    assert (await again("two")).json() == {"status": "Busy"}
    assert (await again("")).fields == ["Pillarbox-Lease-Id"]


async def test_of_fifty_racing_clients_one_acquires(client: Client) -> None:
    replies: list[Reply] = await asyncio.gather(
        *(client.post(f"{INBOX}/try-begin", {"key": "k", "owner": str(n)}) for n in range(50))
    )
    words = [reply.json()["status"] for reply in replies]
    assert (words.count("Acquired"), words.count("Busy")) == (1, 49)


@pytest.mark.parametrize(
    ("verb", "body", "field"),
    [
        ("try-begin", {}, "key"),
        ("try-begin", {"key": ""}, "key"),
        ("try-begin", {"key": 1}, "key"),
        ("try-begin", {"key": None}, "key"),
        ("try-begin", {"key": "a\0"}, "key"),
        ("try-begin", {"key": "x" * 2049}, "key"),
        ("try-begin", {"key": "k", "owner": 1}, "owner"),
        ("try-begin", {"key": "k", "owner": "x" * 256}, "owner"),
        ("try-begin", {"key": "k", "fingerprint": ["f"]}, "fingerprint"),
        ("try-begin", {"key": "k", "leaseSeconds": "60"}, "leaseSeconds"),
        ("try-begin", {"key": "k", "leaseSeconds": True}, "leaseSeconds"),
        ("try-begin", {"key": "k", "lease_seconds": 60}, "lease_seconds"),
        ("try-begin", [], ""),
        ("extend", {"key": "k"}, "leaseId"),
        ("extend", {"key": "k", "leaseId": ""}, "leaseId"),
        ("extend", {"key": "k", "leaseId": "\0"}, "leaseId"),
        ("extend", {"key": "k", "leaseId": "l", "leaseSeconds": {}}, "leaseSeconds"),
        ("mark-processed", {"leaseId": "l"}, "key"),
        ("mark-processed", {"key": "k", "leaseId": 7}, "leaseId"),
        ("mark-processed", {"key": "k", "leaseId": "l", "result": "x" * 70_000}, "result"),
        ("mark-processed", {"key": "k", "leaseId": "l", "result": ["a\0"]}, "result.0"),
        ("mark-processed", {"key": "k", "leaseId": "l", "result": 2**70}, "result"),
        ("release", {"key": "k", "leaseId": "l", "force": True}, "force"),
    ],
)
async def test_a_bad_request_names_its_field(client: Client, verb: str, body: Any, field: str) -> None:
    assert (await client.post(f"{INBOX}/{verb}", body)).fields == [field]


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"key": "\\ud800"}', b'{"key": "k", "leaseSeconds": 1e999}'])
async def test_what_is_no_json_or_no_text_is_refused(client: Client, body: bytes) -> None:
    for verb in ("try-begin", "extend", "mark-processed", "release"):
        assert (await client.post(f"{INBOX}/{verb}", body)).status in (400, 422)


async def test_a_deeply_nested_result_is_refused(client: Client) -> None:
    for depth in (100, 100_000):
        body = b'{"key": "k", "leaseId": "l", "result": ' + b"[" * depth + b"]" * depth + b"}"
        assert (await client.post(f"{INBOX}/mark-processed", body)).status in (400, 422)


async def test_other_methods_and_paths_are_refused(client: Client) -> None:
    assert (await client.post(f"{INBOX}/k", {})).status == 405
    assert (await client.request("DELETE", f"{INBOX}/try-begin")).status == 405
    assert (await client.get(f"{INBOX}/{'x' * 2049}")).fields == ["key"]
    assert (await client.get(f"{INBOX}/")).status == 404
    assert (await client.with_key(None).get(f"{INBOX}/k")).status == 401
    assert (await client.get(f"{INBOX}/try-begin")).json()["status"] == "Unknown"


async def test_a_tenants_key_does_not_open_the_inbox(client: Client, box: Pillarbox) -> None:
    made = await box.keys.create(tenant="acme")
    assert (await client.with_key(made.key).post(f"{INBOX}/try-begin", {"key": "k"})).status == 404
    assert (await client.get(f"{INBOX}/k")).json()["status"] == "Unknown"


async def test_the_announcement_tells_where_and_how_but_no_secret(client: Client) -> None:
    reply = await client.get(INBOX)
    assert reply.json() == {
        "kind": "inbox",
        "name": "here",
        "version": reply.json()["version"],
        "endpoint": {"scheme": "http", "url": "http://127.0.0.1:8025", "auth": "bearer"},
        "leaseDefaults": {"seconds": 60.0},
        "retentionDays": 7.0,
    }
    assert ADMIN_KEY.encode() not in reply.body


async def test_the_announcement_prefers_the_public_address(sqlite_url: str) -> None:
    settings = Settings(http=Http(public_url="https://inbox.example"))
    async with Pillarbox.open(sqlite_url, settings=settings) as box:
        announced = (await Client(create_app(box, admin_key=ADMIN_KEY)).get(INBOX)).json()
    assert announced["endpoint"] == {"scheme": "https", "url": "https://inbox.example", "auth": "bearer"}


async def test_the_status_counts_keys(client: Client) -> None:
    for key in "abc":
        begun = await ask(client, "try-begin", key=key)
    await ask(client, "mark-processed", key="c", leaseId=begun["leaseId"])
    assert (await client.get("/v1/status")).json()["inbox"] == {"leased": 2, "free": 0, "processed": 1}


async def test_answers_are_as_described(client: Client) -> None:
    document = (await client.get("/openapi.json")).json()
    begun = await ask(client, "try-begin", key="k")
    answers = {
        ("post", "/v1/inbox/try-begin"): begun,
        ("post", "/v1/inbox/extend"): await ask(client, "extend", key="k", leaseId=begun["leaseId"]),
        ("get", "/v1/inbox/{key}"): (await client.get(f"{INBOX}/k")).json(),
        ("post", "/v1/inbox/release"): await ask(client, "release", key="k", leaseId=begun["leaseId"]),
        ("post", "/v1/inbox/mark-processed"): await ask(client, "mark-processed", key="k", leaseId="other"),
        ("get", "/v1/inbox"): (await client.get(INBOX)).json(),
    }
    for (method, path), answer in answers.items():
        content = document["paths"][path][method]["responses"]["200"]["content"]["application/json"]
        whole = content["schema"] | {"components": document["components"]}
        jsonschema.validate(answer, whole, jsonschema.Draft202012Validator)
