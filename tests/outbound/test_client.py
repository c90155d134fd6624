import asyncio
import gzip
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

import pytest

from pillarbox.outbound.client import Client, Unanswered
from pillarbox.outbound.provider import Request
from tests.outbound.sink import OK, Talk, Visit, answering, names, not_sent, post, sink


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    client = Client()
    yield client
    await client.close()


async def test_a_request_goes_out_byte_for_byte(client: Client) -> None:
    path = "/a%2Fb/%7e/../c?x=%20+y&z=a=b|c"
    async with sink(answering(OK)) as server:
        response = await post(client, server, path, body=b'{"a": 1}')
    assert (response.status, response.headers, response.body) == (200, {"content-length": "2"}, b"ok")
    [request] = server.requests
    assert request.startswith(f"POST {path} HTTP/1.1\r\n".encode())
    assert request.endswith(b'\r\n\r\n{"a": 1}')
    assert b"accept-encoding: identity" in request.lower()


async def test_connections_are_used_again(client: Client) -> None:
    async with sink(answering(OK)) as server:
        for _ in range(3):
            await post(client, server)
    assert (len(server.requests), server.visits) == (3, 1)


async def test_answers_headers_are_text_that_can_be_stored(client: Client) -> None:
    headers = b"X-Message-Id: a\xff\xc3\xa9\r\nRetry-After: 1\r\nRetry-After: 2\r\nContent-Length: 0\r\n"
    async with sink(answering(b"HTTP/1.1 202 Accepted\r\n" + headers + b"\r\n")) as server:
        response = await post(client, server)
    assert response.headers == {"x-message-id": "a\ufffdé", "retry-after": "1", "content-length": "0"}


async def test_a_large_body_goes_out_whole(client: Client) -> None:
    body = bytes(range(256)) * 20_000
    async with sink(answering(OK)) as server:
        assert (await post(client, server, body=body)).status == 200
    assert server.requests[0].endswith(b"\r\n\r\n" + body)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_told_and_not_followed(status: int, client: Client) -> None:
    async with sink(answering(OK)) as elsewhere:
        location = f"Location: {elsewhere.origin}/".encode()
        answer = b"HTTP/1.1 %d Elsewhere\r\n%b\r\nContent-Length: 0\r\n\r\n" % (status, location)
        async with sink(answering(answer)) as server:
            request = Request("GET", server.origin, {})
            trusted = server.trusted | elsewhere.trusted
            response = await client.fetch(request, deadline=10, guarded=True, trusted=trusted)
    assert (response.status, len(server.requests), elsewhere.visits) == (status, 1, 0)


async def test_no_cookie_is_kept(client: Client) -> None:
    async with sink(answering(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n")) as server:
        await post(client, server)
        await post(client, server)
    assert b"cookie" not in server.requests[1].lower()


async def test_no_proxy_of_the_environment_is_used(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async with sink(answering(OK)) as proxy, sink(answering(OK)) as server:
        for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.origin)
        await post(client, server)
    assert (proxy.visits, server.visits) == (0, 1)


async def test_five_megabytes_of_answer_are_cut_off_at_64_kib(client: Client) -> None:
    size = 5_000_000
    cut_off = asyncio.Event()

    async def talk(visit: Visit) -> None:
        await visit.request()
        with suppress(ConnectionError):
            await visit.say(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size)
            await visit.until_cut_off()
        cut_off.set()

    async with sink(talk) as server:
        response = await post(client, server)
        await cut_off.wait()
    assert (response.status, response.body) == (200, b"x" * 65536)


async def test_a_compressed_answer_is_not_blown_up(client: Client) -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    async with sink(answering(head + bomb)) as server:
        assert (await post(client, server)).body == bomb[:65536]


@pytest.mark.parametrize("status", [200, 400, 503])
async def test_a_status_counts_even_if_the_body_never_ends(status: int, client: Client) -> None:
    async def talk(visit: Visit) -> None:
        await visit.request()
        await visit.say(b"HTTP/1.1 %d Slow\r\nContent-Length: 100\r\n\r\nbegin" % status)
        await visit.until_cut_off()

    async with sink(talk) as server:
        response = await post(client, server, deadline=1)
    assert (response.status, response.body) == (status, b"begin")


async def test_a_status_counts_even_if_the_body_breaks_off(client: Client) -> None:
    async def talk(visit: Visit) -> None:
        await visit.request()
        await visit.say(b"HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\nbegin")

    async with sink(talk) as server:
        assert (await post(client, server)).status == 201


async def unanswered(client: Client, talk: Talk, *, deadline: float = 10, method: str = "POST") -> str:
    async with sink(talk) as server:
        with pytest.raises(Unanswered) as trouble:
            await post(client, server, deadline=deadline, method=method)
        assert str(server.port) not in str(trouble.value)
        assert "127.0.0.1" not in str(trouble.value)
    assert len(server.requests) == server.visits == 1
    return str(trouble.value)


async def test_a_server_that_never_answers_leaves_it_open(client: Client) -> None:
    async def talk(visit: Visit) -> None:
        await visit.request()
        await visit.until_cut_off()

    assert await unanswered(client, talk, deadline=1) == "No answer from the server within 1 s."


@pytest.mark.parametrize("method", ["POST", "PUT", "GET", "DELETE"])
async def test_a_reset_after_the_request_leaves_it_open_and_nothing_is_sent_again(method: str, client: Client) -> None:
    async def talk(visit: Visit) -> None:
        await visit.request()
        visit.reset()

    await unanswered(client, talk, method=method)


@pytest.mark.parametrize("method", ["POST", "PUT", "GET", "DELETE"])
async def test_a_close_after_the_request_leaves_it_open_and_nothing_is_sent_again(method: str, client: Client) -> None:
    async def talk(visit: Visit) -> None:
        await visit.request()

    text = await unanswered(client, talk, method=method)
    assert text == "The server closed the connection without an answer."


async def test_a_kept_connection_cut_after_the_second_request_leaves_that_one_open(client: Client) -> None:
    async def talk(visit: Visit) -> None:
        await visit.request()
        await visit.say(OK)
        await visit.request()

    async with sink(talk) as server:
        assert (await post(client, server, method="PUT")).status == 200
        with pytest.raises(Unanswered):
            await post(client, server, method="PUT")
    assert (len(server.requests), server.visits) == (2, 1)


@pytest.mark.parametrize(
    "garbage",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x00\x01\x02\xff" * 100,
        b"HTTP/1.1 banana\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: minus\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000,
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: y\r\n" % number for number in range(10_000)) + b"\r\n",
        b"<html>not HTTP at all</html>",
    ],
    ids=["ssh", "binary", "no-status", "bad-length", "long-header", "header-flood", "html"],
)
async def test_an_answer_that_is_no_http_leaves_it_open(garbage: bytes, client: Client) -> None:
    async def talk(visit: Visit) -> None:
        await visit.request()
        await visit.say(garbage)
        await visit.until_cut_off()

    assert await unanswered(client, talk) == "The server's answer was not valid HTTP."


async def test_a_head_that_never_ends_leaves_it_open_at_the_deadline(client: Client) -> None:
    async def talk(visit: Visit) -> None:
        await visit.request()
        await visit.say(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        await visit.until_cut_off()

    assert await unanswered(client, talk, deadline=1) == "No answer from the server within 1 s."


async def test_endless_interim_answers_leave_it_open_at_the_deadline(client: Client) -> None:
    async def talk(visit: Visit) -> None:
        await visit.request()
        while not visit.writer.is_closing():
            await visit.say(b"HTTP/1.1 100 Continue\r\n\r\n")
            await asyncio.sleep(0)

    assert await unanswered(client, talk, deadline=1) == "No answer from the server within 1 s."


async def test_a_request_that_is_never_read_leaves_it_open_at_the_deadline(client: Client) -> None:
    async def talk(visit: Visit) -> None:
        await asyncio.Event().wait()

    async with sink(talk) as server:
        with pytest.raises(Unanswered):
            await post(client, server, body=b"x" * 20_000_000, deadline=1)


async def test_a_refused_connection_means_nothing_left(client: Client) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/"
        assert await not_sent(client, url) == "The server could not be reached (ECONNREFUSED)."


async def test_a_name_that_leads_nowhere_means_nothing_left() -> None:
    async def look_up(host: str, port: int) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    for lookup in (look_up, names(nowhere_example=())):
        client = Client(lookup=lookup)
        text = await not_sent(client, "https://nowhere.example/")
        assert text == "The server's host name could not be resolved."
        await client.close()


async def test_a_name_server_that_hangs_means_nothing_left() -> None:
    async def look_up(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    client = Client(lookup=look_up)
    text = await not_sent(client, "https://slow.example/", deadline=0.1)
    assert text == "No connection to the server within 0.1 s."
    await client.close()


async def test_a_handshake_that_hangs_means_nothing_left(client: Client) -> None:
    async def talk(visit: Visit) -> None:
        await visit.until_cut_off()

    async with sink(talk) as server:
        text = await not_sent(client, f"https://127.0.0.1:{server.port}/", deadline=0.2)
    assert text == "No connection to the server within 0.2 s."


async def test_a_server_without_tls_means_nothing_left(client: Client) -> None:
    async def talk(visit: Visit) -> None:
        await visit.reader.read(1)
        await visit.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with sink(talk) as server:
        text = await not_sent(client, f"https://127.0.0.1:{server.port}/")
    assert text == "TLS could not be agreed upon with the server."


async def test_a_download_tells_whether_it_is_all(client: Client) -> None:
    async with sink(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole")) as server:
        for most, body, complete in ((9, b"whole", True), (5, b"whole", True), (4, b"whol", False)):
            answer = await client.download(server.origin, most=most, deadline=10, trusted=server.trusted)
            assert (bytes(answer.body), answer.complete) == (body, complete)


async def test_the_last_word_is_asked_for_when_connected_and_before_anything_is_written(client: Client) -> None:
    asked: list[tuple[int, int]] = []

    async def begin() -> None:
        asked.append((server.visits, len(server.requests)))

    async with sink(answering(OK)) as server:
        request = Request("POST", server.origin, {}, b"{}")
        for _ in range(2):
            await client.fetch(request, deadline=10, guarded=True, trusted=server.trusted, begin=begin)
    assert (asked[1:], len(server.requests)) == ([(1, 1)], 2)


async def test_nothing_is_written_after_a_last_word_of_no(client: Client) -> None:
    class No(Exception):
        pass

    async def begin() -> None:
        raise No

    hung_up = asyncio.Event()
    came = bytearray()

    async def talk(visit: Visit) -> None:
        came.extend(await visit.reader.read())
        hung_up.set()

    async with sink(talk) as server:
        request = Request("POST", server.origin, {}, b"{}")
        with pytest.raises(No):
            await client.fetch(request, deadline=10, guarded=True, trusted=server.trusted, begin=begin)
        await hung_up.wait()
    assert came == b""
