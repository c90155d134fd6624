from pillarbox.api.app import create_app
from pillarbox.box import Pillarbox
from pillarbox.settings import load_settings
from tests.api.client import ADMIN_KEY, Client

PATHS = ["/v1", "/v1/", "/v1/sessions", "/v1/nothing/here", "/%761/sessions", "/v1/inbound/1", "/v1/%ff", "/v1/%00"]
WRONG = [
    [],
    [("authorization", "")],
    [("authorization", "Bearer")],
    [("authorization", "Bearer ")],
    [("authorization", "Bearer wrong")],
    [("authorization", f"Basic {ADMIN_KEY}")],
    [("authorization", ADMIN_KEY)],
    [("authorization", "Bearer pbx_" + "x" * 43)],
    [("authorization", "Bearer pbx_" + "\xff" * 43)],
    [("authorization", f"Bearer {ADMIN_KEY}"), ("authorization", "Bearer other")],
    [("cookie", f"pillarbox_login={ADMIN_KEY}")],
]
KNOWN_HOSTS = [
    "127.0.0.1",
    "127.0.0.1:1",
    "localhost:65535",
    "LocalHost",
    "[::1]",
    "[::1]:80",
    "box.example",
    "10.0.0.7",
]
FOREIGN_HOSTS = [
    "",
    "evil.example",
    "127.0.0.1.evil.example",
    "localhost.evil.example:8025",
    "evil@localhost",
    "127.0.0.1:x",
    "localhost:80:80",
    "[::1",
    "::1",
    "0.0.0.0",  # noqa: S104 - a name that is refused
    "127.0.0.1 ",
    "localhost/",
    "x" * 60_000,
]


async def test_without_a_key_every_path_and_method_below_v1_is_401(client: Client) -> None:
    for method in ("GET", "POST", "DELETE", "OPTIONS", "HEAD", "BREW"):
        for path in PATHS:
            reply = await client.with_key(None).request(method, path, b"not json")
            assert (method, path, reply.status) == (method, path, 401)
            assert reply.headers["www-authenticate"] == "Bearer"


async def test_a_wrong_key_is_401_and_is_not_quoted(client: Client) -> None:
    for headers in WRONG:
        reply = await client.with_key(None).get("/v1/sessions", headers=headers)
        assert (headers, reply.status, reply.reason) == (headers, 401, "unauthorized")
        assert ADMIN_KEY.encode() not in reply.body


async def test_the_scheme_is_read_in_any_case(client: Client) -> None:
    reply = await client.with_key(None).get("/v1/keys", headers=[("authorization", f"bEARER {ADMIN_KEY}")])
    assert reply.status == 200


async def test_a_tenant_key_sees_nothing_outside_its_tenant(client: Client) -> None:
    made = (await client.post("/v1/keys", {"tenant": "acme"})).json()
    tenant = client.with_key(made["key"])
    for path in (*PATHS, "/v1/keys", "/v1/tenants/other", "/v1/tenants", "/v1/tenants/", "/v1/status", "/metrics"):
        for method in ("GET", "POST", "DELETE"):
            reply = await tenant.request(method, path, b"not json")
            expected = 405 if path == "/metrics" and method != "GET" else 404
            assert (method, path, reply.status) == (method, path, expected)


async def test_a_stored_admin_key_may_do_everything(client: Client) -> None:
    made = (await client.post("/v1/keys", {"name": "ops"})).json()
    assert (await client.with_key(made["key"]).get("/v1/sessions")).status == 200


async def test_a_revoked_key_is_refused_at_once(client: Client) -> None:
    made = (await client.post("/v1/keys", {})).json()
    holder = client.with_key(made["key"])
    assert (await holder.get("/v1/status")).status == 200
    assert (await client.request("DELETE", f"/v1/keys/{made['key_id']}")).status == 204
    assert (await holder.get("/v1/status")).status == 401
    assert (await client.request("DELETE", f"/v1/keys/{made['key_id']}")).status == 204
    assert (await client.request("DELETE", "/v1/keys/unknown")).reason == "not-found"


async def test_an_expired_key_is_refused(client: Client) -> None:
    made = (await client.post("/v1/keys", {"expires_at": "2020-01-01T00:00:00+02:00"})).json()
    assert made["expires_at"] == "2019-12-31T22:00:00Z"
    assert (await client.with_key(made["key"]).get("/v1/status")).status == 401


async def test_without_an_admin_key_nobody_is_let_in(box: Pillarbox) -> None:
    client = Client(create_app(box, admin_key=None))
    for key in ("", "None", ADMIN_KEY):
        assert (await client.with_key(key).get("/v1/status")).status == 401


async def test_a_known_path_comes_before_its_method_and_an_unknown_one_is_404(client: Client) -> None:
    assert (await client.get("/v1/nothing")).reason == "not-found"
    assert (await client.get("/nothing")).reason == "not-found"
    refused = await client.request("PUT", "/v1/sessions", b"not json")
    assert (refused.status, refused.reason) == (405, "method-not-allowed")
    assert refused.headers["allow"] == "GET, HEAD, OPTIONS, POST"
    options = await client.request("OPTIONS", "/v1/sessions")
    assert (options.status, options.headers["allow"], options.body) == (204, refused.headers["allow"], b"")


async def test_head_is_get_without_its_body(client: Client) -> None:
    got, head = await client.get("/v1/status"), await client.request("HEAD", "/v1/status")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == str(len(got.body))


async def test_known_hosts_are_answered(box: Pillarbox) -> None:
    box.settings = load_settings(environ={}, http={"allowed_hosts": ["box.example"]})
    app = create_app(box, admin_key=ADMIN_KEY, bound_hosts=["10.0.0.7"])
    for host in KNOWN_HOSTS:
        assert (host, (await Client(app, host=host).get("/healthz")).status) == (host, 200)


async def test_the_host_of_the_public_url_is_answered_without_being_listed(box: Pillarbox) -> None:
    for url, host in (
        ("https://Mail.Acme.example:8443/box", "mail.acme.example"),
        ("http://[2001:DB8::1]:8025", "[2001:db8::1]:8025"),
    ):
        box.settings = load_settings(environ={}, http={"public_url": url})
        app = create_app(box, admin_key=ADMIN_KEY)
        assert (host, (await Client(app, host=host).get("/healthz")).status) == (host, 200)
        assert (await Client(app, host="evil.example").get("/healthz")).status == 421


async def test_foreign_hosts_are_refused_before_anything_else(client: Client) -> None:
    for host in FOREIGN_HOSTS:
        for path in ("/healthz", "/v1/sessions", "/", "/login", "/nothing"):
            reply = await Client(client.app, host=host).get(path)
            assert (host, reply.status, reply.reason) == (host, 421, "misdirected")


async def test_a_request_names_one_host(client: Client) -> None:
    assert (await client.get("/healthz", headers=[("host", "localhost")])).status == 421
    assert (await client.exchange("GET", b"/healthz", [], [b""])).status == 421
