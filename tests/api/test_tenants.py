from typing import Any

from pillarbox.box import Pillarbox
from pillarbox.settings import load_settings
from tests.api.client import Client, Reply

SENDGRID = {"provider": "sendgrid", "from": "Acme <hello@acme.example>", "credentials": {"api_key": "env:ACME_KEY"}}
FIELDS = ["tenant_id", "name", "providers", "settings", "rate", "created_at", "updated_at"]
NO_ID = "00000000-0000-7000-8000-000000000000"
EMAIL = {"channel": "email", "to": "a@example.com", "text": "hello"}

TENANT_SCOPED: list[tuple[str, str, Any]] = [
    ("GET", "", None),
    ("PUT", "", {"name": "taken"}),
    ("DELETE", "", None),
    ("GET", "/messages", None),
    ("GET", "/messages?status=canceled", None),
    ("POST", "/messages", EMAIL),
    ("GET", "/messages/{message}", None),
    ("POST", "/messages/{message}/cancel", None),
    ("POST", "/messages/{message}/retry", None),
    ("GET", "/opt-outs", None),
    ("POST", "/opt-outs", {"contact": "a@example.com"}),
    ("DELETE", "/opt-outs/{opt_out}", None),
    ("POST", "/forget", {"contact": "a@example.com"}),
    ("GET", "/nothing", None),
]
"""Everything below a tenant."""


async def put(client: Client, tenant: str, body: Any) -> Reply:
    return await client.request("PUT", f"/v1/tenants/{tenant}", body)


async def key_of(client: Client, tenant: str) -> Client:
    return client.with_key((await client.post("/v1/keys", {"tenant": tenant})).json()["key"])


async def test_a_tenant_is_made_then_replaced_and_shown_with_its_references(client: Client) -> None:
    made = await put(client, "acme", {"name": "Acme", "providers": {"email": SENDGRID}})
    assert (made.status, list(made.json())) == (201, FIELDS)
    assert (made.json()["providers"], made.json()["settings"], made.json()["rate"]) == ({"email": SENDGRID}, {}, None)
    assert made.json()["created_at"].endswith("Z")
    assert (await client.get("/v1/tenants/acme")).json() == made.json()
    replaced = await put(client, "acme", {"settings": {"rate_per_minute": 60}})
    assert (replaced.status, replaced.json()["name"], replaced.json()["providers"]) == (200, None, {})
    assert replaced.json()["rate"] == {"per_minute": 60, "waits_until": None}
    assert replaced.json()["settings"] == {"rate_per_minute": 60}


async def test_a_secret_in_the_place_of_a_reference_is_refused_and_not_quoted(client: Client) -> None:
    for secret in ("SG.c4n4ry-secret", "", "env:", "env:A B", "vault:a#b", "https://c4n4ry"):
        config = SENDGRID | {"credentials": {"api_key": secret}}
        refused = await put(client, "acme", {"providers": {"email": config}})
        assert (secret, refused.fields) == (secret, ["providers.email.credentials.api_key"])
        assert b"c4n4ry" not in refused.body
    assert (await client.get("/v1/tenants/acme")).status == 404


async def test_a_tenant_that_could_not_be_is_refused_by_its_field(client: Client) -> None:
    for name in ("A", "-a", "a" * 64, "a.b", "%C3%A9", "a%2Fb", "%0a", "a%20"):
        assert (name, (await put(client, name, {})).fields) == (name, ["tenant"])
        assert (await client.get(f"/v1/tenants/{name}")).reason == "not-found"
    for body, field in (
        ({"nothing": 1}, "nothing"),
        ({"name": "\0"}, "name"),
        ({"providers": []}, "providers"),
        ({"providers": {"fax": {"provider": "sandbox"}}}, "providers.fax"),
        ({"providers": {"email": {}}}, "providers.email.provider"),
        ({"providers": {"email": {"provider": "carrier-pigeon"}}}, "providers.email.provider"),
        ({"providers": {"email": SENDGRID | {"extra": 1}}}, "providers.email.extra"),
        ({"settings": {"rate_per_minute": -1}}, "settings.rate_per_minute"),
        ({"settings": {"max_attempts": 0}}, "settings.max_attempts"),
        ({"settings": {"trusted_destinations": ["nowhere"]}}, "settings.trusted_destinations.0"),
        ({"settings": {"color": "red"}}, "settings.color"),
    ):
        assert (body, (await put(client, "acme", body)).fields) == (body, [field])


TWILIO = {"provider": "twilio", "credentials": {"account_sid": "env:SID", "auth_token": "env:TOKEN"}}
SMTP = {"provider": "smtp", "host": "mail.acme.example"}
BAD_OPTIONS: list[tuple[str, dict[str, Any], str, list[Any]]] = [
    ("email", SMTP, "tls", [[], {}, ["none"], 1, True, None, "ssl"]),
    ("email", SMTP, "host", [[], {}, 1, None, "", "127.0.0.1", "a b"]),
    ("email", SMTP, "port", [[], {}, "25", None, True, 25.5]),
    ("email", SMTP, "from", [[], {}, 1, "", "nobody", "a@b.example\r\nBcc: c@d.example"]),
    ("sms", TWILIO, "from", [[], {}, 1, "", "not a number!!", "+1"]),
    (
        "sms",
        TWILIO,
        "status_callback",
        [[], {}, 1, None, "", "acme.example", "http://acme.example/", "https://127.0.0.1/", "https://a b/"],
    ),
    (
        "webhook",
        {"provider": "webhook"},
        "signature_header",
        [[], {}, 1, None, "", "a b", "a\r\nb: c", "é", "x" * 101, "Host", "Content-Length", "TE", "Webhook-Id"],
    ),
    (
        "webhook",
        {"provider": "webhook"},
        "signature_header",
        ["Transfer-Encoding", "Connection", "Proxy-X", "Content-Type", "User-Agent", "Authorization"],
    ),
]


async def test_an_option_that_cannot_be_used_is_refused_when_it_is_set(client: Client) -> None:
    for channel, config, option, values in BAD_OPTIONS:
        for value in values:
            refused = await put(client, "acme", {"providers": {channel: config | {option: value}}})
            assert (option, value, refused.status) == (option, value, 422)
            assert refused.fields == [f"providers.{channel}.{option}"]
    assert (await client.get("/v1/tenants/acme")).status == 404


async def test_options_that_can_be_used_are_kept_as_they_were_given(client: Client) -> None:
    providers = {
        "email": SMTP | {"tls": "implicit", "port": 465, "from": "Acme <hello@acme.example>"},
        "sms": TWILIO | {"status_callback": "https://acme.example/status?a=1", "from": "+15005550006"},
        "webhook": {"provider": "webhook", "signature_header": "X-Acme-Signature"},
    }
    assert (await put(client, "acme", {"providers": providers})).json()["providers"] == providers


async def test_a_trusted_destination_that_could_never_be_called_is_refused(client: Client) -> None:
    for origin in ("http://127.0.0.1:81", "https://intranet:22", "smtp://mail:80"):
        refused = await put(client, "acme", {"settings": {"trusted_destinations": ["http://127.0.0.1:8080", origin]}})
        assert (origin, refused.fields) == (origin, ["settings.trusted_destinations.1"])


async def test_tenants_are_listed_a_page_at_a_time(client: Client) -> None:
    for name in ("c", "a", "b"):
        await put(client, name, {})
    page = (await client.get("/v1/tenants?limit=2")).json()
    rest = (await client.get(f"/v1/tenants?limit=2&cursor={page['next_cursor']}")).json()
    assert [item["tenant_id"] for item in page["items"] + rest["items"]] == ["a", "b", "c"]
    assert (list(page["items"][0]), rest["next_cursor"]) == (FIELDS, None)


async def test_a_tenant_with_messages_waiting_is_not_deleted(client: Client, acme: str) -> None:
    queued = (await client.post(f"{acme}/messages", EMAIL)).json()
    refused = await client.request("DELETE", acme)
    assert (refused.status, refused.reason) == (409, "tenant-busy")
    await client.post(f"{acme}/messages/{queued['message_id']}/cancel")
    gone = await client.request("DELETE", acme)
    assert (gone.status, gone.body) == (204, b"")
    assert (await client.get(acme)).status == 404
    assert (await client.request("DELETE", acme)).reason == "not-found"


async def test_a_tenant_made_again_under_an_old_name_starts_empty_and_old_keys_stay_dead(
    client: Client, acme: str
) -> None:
    key, others = await key_of(client, "acme"), await key_of(client, "other")
    named = [("idempotency-key", "k1")]
    sent = (await key.post(f"{acme}/messages", EMAIL, headers=named)).json()["message_id"]
    await key.post(f"{acme}/opt-outs", {"contact": "gone@example.com"})
    assert (await client.request("DELETE", acme)).reason == "tenant-busy"
    assert (await key.post(f"{acme}/messages/{sent}/cancel")).status == 200
    assert (await client.request("DELETE", acme)).status == 204
    assert (await key.get(acme)).status == 401
    await put(client, "acme", {"name": "another", "providers": {"email": {"provider": "sandbox"}}})
    assert (await key.get(f"{acme}/messages")).status == 401
    assert (await others.get("/v1/tenants/other")).status == 404
    fresh = await key_of(client, "acme")
    for path in ("/messages", "/opt-outs"):
        assert (await fresh.get(acme + path)).json()["items"] == []
    assert (await fresh.get(f"{acme}/messages/{sent}")).status == 404
    assert (await fresh.post(f"{acme}/messages/{sent}/retry")).status == 404
    again = await fresh.post(f"{acme}/messages", EMAIL | {"to": "gone@example.com"}, headers=named)
    assert (again.status, "idempotency-replayed" in again.headers) == (202, False)


async def test_a_tenant_key_reads_and_sends_but_does_not_change_its_tenant(client: Client, acme: str) -> None:
    own = await key_of(client, "acme")
    assert (await own.get(acme)).status == 200
    queued = await own.post(f"{acme}/messages", EMAIL)
    assert (queued.status, (await own.get(f"{acme}/messages/{queued.json()['message_id']}")).status) == (202, 200)
    before = (await client.get(acme)).json()
    for method in ("PUT", "DELETE"):
        refused = await own.request(method, acme, b"not json")
        assert (method, refused.status, refused.reason) == (method, 403, "for-admins")
    assert (await client.get(acme)).json() == before


async def test_a_tenant_key_meets_nothing_of_another_tenant(client: Client, acme: str) -> None:
    await put(client, "other", {"name": "c4n4ry", "providers": {"email": {"provider": "sandbox"}}})
    message, opt_out = await secrets_of(client, "/v1/tenants/other")
    before = await everything(client, "/v1/tenants/other", message)
    stranger = await key_of(client, "acme")
    for method, path, body in TENANT_SCOPED:
        real = path.format(message=message, opt_out=opt_out)
        over_there = await stranger.request(method, f"/v1/tenants/other{real}", body)
        nowhere = await stranger.request(method, f"/v1/tenants/none{path.format(message=NO_ID, opt_out=NO_ID)}", body)
        assert (method, path, over_there.status) == (method, path, 404)
        assert over_there.body == nowhere.body
    assert await everything(client, "/v1/tenants/other", message) == before


async def test_an_id_of_another_tenant_is_as_unknown_as_one_of_nobody(client: Client, acme: str) -> None:
    await put(client, "other", {"providers": {"email": {"provider": "sandbox"}}})
    message, opt_out = await secrets_of(client, "/v1/tenants/other")
    before = await everything(client, "/v1/tenants/other", message)
    own = await key_of(client, "acme")
    for caller in (own, client):
        for method, path, body in TENANT_SCOPED:
            if "{" in path:
                theirs = await caller.request(method, acme + path.format(message=message, opt_out=opt_out), body)
                nobodys = await caller.request(method, acme + path.format(message=NO_ID, opt_out=NO_ID), body)
                assert (method, path, theirs.status) == (method, path, 404)
                assert theirs.body.replace(message.encode(), NO_ID.encode()) == nobodys.body
    assert await everything(client, "/v1/tenants/other", message) == before


async def test_the_lists_of_two_tenants_are_apart(client: Client, acme: str) -> None:
    await put(client, "other", {"providers": {"email": {"provider": "sandbox"}}})
    await secrets_of(client, "/v1/tenants/other")
    for path in ("/messages", "/messages?to=c4n4ry@example.com", "/messages?tag=c4n4ry", "/opt-outs"):
        assert (await client.get(acme + path)).json() == {"items": [], "next_cursor": None}
    assert (await client.post(f"{acme}/forget", {"contact": "c4n4ry@example.com"})).json() == {"forgotten": 0}
    assert (await client.post(f"{acme}/messages", EMAIL | {"to": "gone@example.com"})).status == 202


async def test_without_a_key_postgres_says_what_it_needs(postgres_url: str) -> None:
    from pillarbox.api.app import create_app
    from tests.api.client import ADMIN_KEY

    async with Pillarbox.open(postgres_url, settings=load_settings(environ={})) as box:
        client = Client(create_app(box, admin_key=ADMIN_KEY))
        await put(client, "acme", {"providers": {"email": {"provider": "sandbox"}}})
        refused = await client.post("/v1/tenants/acme/messages", EMAIL)
        assert (refused.status, refused.reason) == (503, "unavailable")
        assert "secrets.key" in refused.json()["detail"]
        assert (await client.with_key(None).get("/u/token")).status == 503


async def secrets_of(client: Client, tenant: str) -> tuple[str, str]:
    """A message and an opt-out that nobody else may see; their ids."""
    new = EMAIL | {"to": "c4n4ry@example.com", "subject": "c4n4ry", "tags": ["c4n4ry"]}
    message = (await client.post(f"{tenant}/messages", new)).json()["message_id"]
    opt_out = (await client.post(f"{tenant}/opt-outs", {"contact": "gone@example.com"})).json()["id"]
    return message, opt_out


async def everything(client: Client, tenant: str, message: str) -> list[Any]:
    paths = ("", "/messages", f"/messages/{message}", "/opt-outs")
    return [(await client.get(tenant + path)).json() for path in paths]
