import asyncio
import gzip
import socket
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from pillarbox.clock import system_clock
from pillarbox.engine import Delivered, Failed, Outcome, Retry, Skipped
from pillarbox.inbound.targets.http import HttpDeliverer
from pillarbox.inbound.targets.placement import HttpTarget
from tests.inbound.targets.messages import a_message
from tests.servers.http_target import (
    Answer,
    HttpTargetServer,
    answer,
    drip,
    drop,
    flood,
    hang,
    redirect,
    self_signed,
    serve_http_target,
    serve_raw,
)

SECRET = "whsec_" + b64encode(b"0123456789abcdef01234567").decode()
GZIPPED = gzip.compress(b'{"stale": true}')


@pytest.fixture
async def server() -> AsyncIterator[HttpTargetServer]:
    async with serve_http_target() as server:
        yield server


@pytest.fixture
async def deliverer() -> AsyncIterator[HttpDeliverer]:
    deliverer = HttpDeliverer(node="n1", clock=system_clock())
    yield deliverer
    await deliverer.close()


def headers_of(server: HttpTargetServer, index: int = 0) -> dict[str, str]:
    return dict(server.requests[index].headers)


async def test_a_message_is_posted_with_its_marks(server: HttpTargetServer, deliverer: HttpDeliverer) -> None:
    spec = HttpTarget(url=f"{server.url}/in", headers={"X-Team": "blue", "Authorization": "Bearer t"})
    assert await deliverer.deliver(spec, a_message()) == Delivered()
    [request] = server.requests
    assert (request.method, request.target) == ("POST", "/in")
    assert (request.json["message_id"], request.json["token"], request.json["node"]) == (41, 12, "n1")
    expected = {
        "Content-Type": "application/json",
        "Content-Length": str(len(request.body)),
        "Pillarbox-Message-Id": "41",
        "Pillarbox-Attempt": "3",
        "Pillarbox-Token": "12",
        "Pillarbox-Node": "n1",
        "X-Team": "blue",
        "Authorization": "Bearer t",
    }
    assert expected.items() <= headers_of(server).items()
    assert not any(name.lower().startswith("webhook-") for name in request.headers)


@pytest.mark.parametrize("rest", ["", "/", "?q=1", "/a%2Fb/%7e/../c?x=%20+y&z=a=b"])
async def test_the_url_is_requested_as_it_was_written(
    rest: str, server: HttpTargetServer, deliverer: HttpDeliverer
) -> None:
    await deliverer.deliver(HttpTarget(url=server.url + rest), a_message())
    assert server.requests[0].target == (rest if rest.startswith("/") else "/" + rest)


@pytest.mark.parametrize(
    ("given", "outcome"),
    [
        (answer(200), Delivered()),
        (answer(204), Delivered()),
        (answer(202, body=b"x" * 1_000_000), Delivered()),
        (answer(200, body=b"not gzip", headers={"Content-Encoding": "gzip"}), Delivered()),
        (answer(409, json={"stale": True}), Skipped("The target refused the token as stale.")),
        (answer(409, json={"stale": True, "pad": "x" * 50_000}), Skipped("The target refused the token as stale.")),
        (answer(409, json={"stale": True, "pad": "x" * 70_000}), Retry("The target answered HTTP 409.")),
        (answer(409, json={"stale": 1}), Retry("The target answered HTTP 409.")),
        (answer(409, json=[True]), Retry("The target answered HTTP 409.")),
        (answer(409, body=b"\xff stale"), Retry("The target answered HTTP 409.")),
        (answer(409, body=b"[" * 50_000), Retry("The target answered HTTP 409.")),
        (answer(409, body=GZIPPED, headers={"Content-Encoding": "gzip"}), Retry("The target answered HTTP 409.")),
        (answer(409), Retry("The target answered HTTP 409.")),
        (answer(410), Failed("The target answered 410 Gone.")),
        (answer(410, json={"stale": True}), Failed("The target answered 410 Gone.")),
        (answer(304), Retry("The target answered HTTP 304.")),
        (answer(400, body=b"secret words"), Retry("The target answered HTTP 400.")),
        (answer(404), Retry("The target answered HTTP 404.")),
        (answer(429), Retry("The target answered HTTP 429.")),
        (answer(503), Retry("The target answered HTTP 503.")),
        (drop(), Retry("The target closed the connection without an answer.")),
    ],
)
async def test_the_answer_decides(
    given: Answer, outcome: Outcome, server: HttpTargetServer, deliverer: HttpDeliverer
) -> None:
    server.then(given)
    assert await deliverer.deliver(HttpTarget(url=server.url), a_message()) == outcome


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(status: int, server: HttpTargetServer, deliverer: HttpDeliverer) -> None:
    server.then(redirect(f"{server.url}/elsewhere", status))
    outcome = await deliverer.deliver(HttpTarget(url=server.url), a_message())
    assert outcome == Retry(f"The target answered HTTP {status}.")
    assert len(server.requests) == 1


@pytest.mark.parametrize("unending", [drip(200), flood(200)])
async def test_a_2xx_counts_though_its_body_never_ends_and_its_connection_is_closed(
    unending: Answer, server: HttpTargetServer, deliverer: HttpDeliverer
) -> None:
    server.then(unending)
    assert await deliverer.deliver(HttpTarget(url=server.url), a_message()) == Delivered()
    assert server.cut_offs == 0
    await server.cut_off()


async def test_an_unending_409_is_retried_in_time(server: HttpTargetServer, deliverer: HttpDeliverer) -> None:
    server.then(flood(409))
    outcome = await deliverer.deliver(HttpTarget(url=server.url), a_message())
    assert outcome == Retry("The target answered HTTP 409.")
    await server.cut_off()


@pytest.mark.parametrize("stuck", [hang(), drip(409)])
async def test_a_cancelled_delivery_closes_its_connection(
    stuck: Answer, server: HttpTargetServer, deliverer: HttpDeliverer
) -> None:
    server.then(stuck)
    delivery = asyncio.create_task(deliverer.deliver(HttpTarget(url=server.url), a_message()))
    await server.received(1)
    delivery.cancel()
    with pytest.raises(asyncio.CancelledError):
        await delivery
    await server.cut_off()
    assert await deliverer.deliver(HttpTarget(url=server.url), a_message()) == Delivered()


async def test_closing_cuts_off_what_is_left_of_an_answer(server: HttpTargetServer, deliverer: HttpDeliverer) -> None:
    server.then(drip(200))
    await deliverer.deliver(HttpTarget(url=server.url), a_message())
    await deliverer.close()
    await server.cut_off()


@pytest.mark.parametrize("status", [200, 409, 503])
async def test_connections_are_used_again(status: int, server: HttpTargetServer, deliverer: HttpDeliverer) -> None:
    server.default = answer(status, body=b"x" * 1000)
    for _ in range(5):
        await deliverer.deliver(HttpTarget(url=server.url), a_message())
    assert len({request.connection for request in server.requests}) == 1


async def test_deliveries_do_not_wait_for_each_other(server: HttpTargetServer, deliverer: HttpDeliverer) -> None:
    server.default = hang()
    spec = HttpTarget(url=server.url)
    hanging = [asyncio.create_task(deliverer.deliver(spec, a_message(id=number))) for number in range(150)]
    await server.received(150)
    server.default = answer(200)
    assert await deliverer.deliver(spec, a_message()) == Delivered()
    for delivery in hanging:
        delivery.cancel()
    await asyncio.wait(hanging)


async def test_cookies_are_neither_kept_nor_sent(server: HttpTargetServer, deliverer: HttpDeliverer) -> None:
    server.default = answer(200, headers={"Set-Cookie": "a=b; Path=/"})
    for _ in range(2):
        await deliverer.deliver(HttpTarget(url=server.url.replace("127.0.0.1", "localhost")), a_message())
    assert "Cookie" not in headers_of(server, 1)


async def test_proxies_of_the_environment_are_not_used(
    server: HttpTargetServer, deliverer: HttpDeliverer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert await deliverer.deliver(HttpTarget(url=server.url), a_message()) == Delivered()


async def test_a_large_message_arrives_whole(server: HttpTargetServer, deliverer: HttpDeliverer) -> None:
    message = a_message(content="ü" * 4_000_000)
    assert await deliverer.deliver(HttpTarget(url=server.url, secret=SECRET), message) == Delivered()
    [request] = server.requests
    assert request.json["content"] == message.content
    Webhook(SECRET).verify(request.body, headers_of(server))


async def test_ipv6_is_reached(deliverer: HttpDeliverer) -> None:
    if not _has_ipv6():
        pytest.skip("this machine has no IPv6 loopback")
    async with serve_http_target(host="::1") as server:
        assert await deliverer.deliver(HttpTarget(url=server.url), a_message()) == Delivered()


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


class TestSigned:
    async def test_every_attempt_carries_the_same_id_and_a_signature_of_its_own_bytes(
        self, server: HttpTargetServer, deliverer: HttpDeliverer
    ) -> None:
        for attempt in (1, 2):
            spec = HttpTarget(url=server.url, secret=SECRET)
            await deliverer.deliver(spec, a_message(attempt_count=attempt, token=attempt))
        for index, request in enumerate(server.requests):
            assert Webhook(SECRET).verify(request.body, headers_of(server, index))["attempt"] == index + 1
        assert {request.headers["webhook-id"] for request in server.requests} == {"in_41"}

    async def test_a_secret_is_read_from_the_environment_at_each_delivery(
        self, server: HttpTargetServer, deliverer: HttpDeliverer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        spec = HttpTarget(url=server.url, secret="env:TARGET_SECRET")
        for index, secret in enumerate([SECRET, "whsec_" + b64encode(b"another").decode()]):
            monkeypatch.setenv("TARGET_SECRET", secret)
            assert await deliverer.deliver(spec, a_message()) == Delivered()
            Webhook(secret).verify(server.requests[index].body, headers_of(server, index))

    async def test_a_secret_is_read_from_a_file(
        self, server: HttpTargetServer, deliverer: HttpDeliverer, tmp_path: Path
    ) -> None:
        file = tmp_path / "secret"
        file.write_text(SECRET + "\n")
        await deliverer.deliver(HttpTarget(url=server.url, secret=f"file:{file}"), a_message())
        Webhook(SECRET).verify(server.requests[0].body, headers_of(server))

    @pytest.mark.parametrize(
        ("secret", "error"),
        [
            ("env:NOT_SET_ANYWHERE", "is not whsec_ followed by base64 on this node."),
            ("env:BAD_SECRET", "is not whsec_ followed by base64 on this node."),
            ("file:{}/missing", "cannot be read on this node (ENOENT)."),
            ("file:{}", "cannot be read on this node (EISDIR)."),
            ("file:{}/binary", "cannot be read on this node."),
        ],
    )
    async def test_without_its_secret_nothing_is_sent(
        self,
        secret: str,
        error: str,
        server: HttpTargetServer,
        deliverer: HttpDeliverer,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("BAD_SECRET", "hunter2")
        (tmp_path / "binary").write_bytes(b"\xff\x00")
        secret = secret.format(tmp_path)
        outcome = await deliverer.deliver(HttpTarget(url=server.url, secret=secret), a_message())
        assert outcome == Retry(f"The target's secret {secret} {error}")
        assert server.requests == []


class TestTrouble:
    """Every sentence is whole, so nothing of the URL or of an answer can be in it."""

    async def test_nobody_listens(self, deliverer: HttpDeliverer) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{taken.getsockname()[1]}/?token=hunter2"
            outcome = await deliverer.deliver(HttpTarget(url=url), a_message())
        assert outcome == Retry("The target could not be reached (ECONNREFUSED).")

    async def test_the_name_is_unknown(self, deliverer: HttpDeliverer) -> None:
        outcome = await deliverer.deliver(HttpTarget(url="http://nowhere.invalid/?token=hunter2"), a_message())
        assert outcome == Retry("The target's host name could not be resolved.")

    @pytest.mark.parametrize(
        "reply",
        [b"SSH-2.0 hunter2\r\n\r\n", b"HTTP/1.1 two hundred\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000],
        ids=["another protocol", "a bad status", "a huge header"],
    )
    async def test_the_answer_is_not_http(self, reply: bytes, deliverer: HttpDeliverer) -> None:
        async with serve_raw(reply) as address:
            outcome = await deliverer.deliver(HttpTarget(url=f"http://{address}"), a_message())
        assert outcome == Retry("The target's answer was not valid HTTP.")

    async def test_the_target_does_not_speak_tls(self, deliverer: HttpDeliverer) -> None:
        async with serve_raw(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address:
            outcome = await deliverer.deliver(HttpTarget(url=f"https://{address}"), a_message())
        assert outcome == Retry("TLS could not be agreed upon with the target.")

    async def test_nobody_trusts_the_certificate(self, deliverer: HttpDeliverer, tmp_path: Path) -> None:
        if (tls := self_signed(tmp_path)) is None:
            pytest.skip("openssl is missing")
        async with serve_http_target(tls=tls) as server:
            outcome = await deliverer.deliver(HttpTarget(url=server.url), a_message())
            assert outcome == Retry("The target's TLS certificate was not accepted.")
            assert server.requests == []

    async def test_the_target_hangs_up_while_it_is_being_sent_a_large_message(self, deliverer: HttpDeliverer) -> None:
        async with serve_raw(b"") as address:
            spec = HttpTarget(url=f"http://{address}")
            outcome = await deliverer.deliver(spec, a_message(content="x" * 8_000_000))
        assert isinstance(outcome, Retry)
        assert outcome.error.startswith(("The connection to the target broke", "The target closed the connection"))
