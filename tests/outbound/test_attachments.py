import asyncio
import os
import socket
import tempfile
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from pillarbox.outbound.attachments import AttachmentReader, AttachmentRefused, AttachmentUnavailable
from pillarbox.outbound.client import Client
from pillarbox.outbound.files import read_below
from pillarbox.outbound.model import NewAttachment
from pillarbox.outbound.provider import Attachment
from tests.outbound.sink import Visit, sink
from tests.servers.http_target import HttpTargetServer, answer, drip, flood, hang, redirect, serve_http_target

MIB = 1024 * 1024


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Never below /dev, where the other tests' files may lie and attachments may not."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    (folder / "2026").mkdir(parents=True)
    (folder / "2026" / "invoice.pdf").write_bytes(b"%PDF-1.7")
    (tmp_path / "secret.txt").write_text("canary")
    return folder


@pytest.fixture
async def server() -> AsyncIterator[HttpTargetServer]:
    async with serve_http_target() as server:
        yield server


@pytest.fixture
async def reader(root: Path) -> AsyncIterator[AttachmentReader]:
    client = Client()
    yield AttachmentReader(client, roots=[str(root)])
    await client.close()


def at_path(path: Path | str, filename: str = "invoice.pdf") -> NewAttachment:
    return NewAttachment(filename=filename, path=str(path))


def inline(content: bytes, filename: str = "notes.txt") -> NewAttachment:
    return NewAttachment(filename=filename, content=b64encode(content).decode())


async def read(reader: AttachmentReader, *given: NewAttachment) -> tuple[Attachment, ...]:
    return await reader.read(given, deadline=10)


async def refused(reader: AttachmentReader, *given: NewAttachment) -> str:
    with pytest.raises(AttachmentRefused) as refusal:
        await read(reader, *given)
    return str(refusal.value)


async def fetch(
    reader: AttachmentReader, server: HttpTargetServer, *, filename: str = "report", deadline: float = 10
) -> Attachment:
    given = NewAttachment(filename=filename, url=f"{server.url}/file?token=canary")
    [found] = await reader.read([given], deadline=deadline, trusted=frozenset({server.url}))
    return found


async def test_attachments_are_read_in_their_order(reader: AttachmentReader, root: Path) -> None:
    typed = NewAttachment(filename="data", content_type="text/csv", content="YSxi")
    assert await read(reader, inline(b"hello"), at_path(root / "2026" / "invoice.pdf"), typed) == (
        Attachment("notes.txt", "text/plain", b"hello"),
        Attachment("invoice.pdf", "application/pdf", b"%PDF-1.7"),
        Attachment("data", "text/csv", b"a,b"),
    )


@pytest.mark.parametrize(
    ("given", "name"),
    [("../../etc/passwd", "passwd"), ("C:\\temp\\a.txt", "a.txt"), ("a\r\nb.txt", "ab.txt"), ("..", "attachment"),
     ("", "attachment")],
)  # fmt: skip
async def test_a_file_goes_out_under_a_plain_name(given: str, name: str, reader: AttachmentReader) -> None:
    [found] = await read(reader, inline(b"x", given))
    assert found.filename == name


@pytest.mark.parametrize(
    "path",
    ["{root}/../secret.txt", "{root}/2026/../../secret.txt", "{root}/./../secret.txt", "{root}", "{root}/", "/etc/passwd",
     "2026/invoice.pdf", "{root}x/secret.txt", "../secret.txt", "{root}/a\0b", "", "/", "//etc/passwd"],
)  # fmt: skip
async def test_a_path_that_leaves_the_roots_is_refused(path: str, reader: AttachmentReader, root: Path) -> None:
    text = await refused(reader, at_path(path.format(root=root), "x.pdf"))
    assert text == "The attachment 'x.pdf' is not below one of outbound.attachment_roots."


async def test_no_file_is_read_without_roots(root: Path) -> None:
    reader = AttachmentReader(Client(), roots=[])
    await refused(reader, at_path(root / "2026" / "invoice.pdf"))


@pytest.mark.parametrize("path", ["/proc/self/environ", "/dev/null", "/sys/kernel/uevent_seqnum"])
async def test_files_of_the_system_are_refused_even_below_a_root(path: str) -> None:
    reader = AttachmentReader(Client(), roots=["/"])
    assert "is not a regular file" in await refused(reader, at_path(path))


async def test_a_link_is_not_followed_at_any_step(reader: AttachmentReader, root: Path, tmp_path: Path) -> None:
    (root / "file").symlink_to(tmp_path / "secret.txt")
    (root / "inside").symlink_to(root / "2026" / "invoice.pdf")
    (root / "folder").symlink_to(tmp_path)
    (root / "2026" / "up").symlink_to("../..")
    for path in ("file", "inside", "folder/secret.txt", "2026/up/secret.txt"):
        text = await refused(reader, at_path(root / path))
        assert text == "The attachment 'invoice.pdf' does not exist, or a link leads to it."


async def test_a_root_may_be_a_link_of_the_operators(root: Path, tmp_path: Path) -> None:
    (tmp_path / "current").symlink_to(root)
    assert read_below(f"{tmp_path}/current/2026/invoice.pdf", [f"{tmp_path}/current"], most=99) == b"%PDF-1.7"


async def test_a_link_swapped_in_between_two_attempts_is_refused(
    reader: AttachmentReader, root: Path, tmp_path: Path
) -> None:
    given = at_path(root / "2026" / "invoice.pdf")
    assert (await read(reader, given))[0].content == b"%PDF-1.7"
    (root / "2026").rename(root / "old")
    (root / "2026").symlink_to(tmp_path)
    (tmp_path / "invoice.pdf").write_text("canary")
    await refused(reader, given)


def test_a_link_swapped_in_while_files_are_read_never_leads_out(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "invoice.pdf").write_text("canary")
    (root / "link").symlink_to(outside)
    stop = False

    def swap() -> None:
        while not stop:
            os.rename(root / "2026", root / "kept")
            os.rename(root / "link", root / "2026")
            os.rename(root / "2026", root / "link")
            os.rename(root / "kept", root / "2026")

    async def race() -> set[bytes]:
        nonlocal stop
        swapping = asyncio.create_task(asyncio.to_thread(swap))
        found = await asyncio.to_thread(attempts)
        stop = True
        await swapping
        return found

    def attempts() -> set[bytes]:
        found = set()
        for _ in range(2000):
            try:
                found.add(read_below(str(root / "2026" / "invoice.pdf"), [str(root)], most=99))
            except Exception as error:
                found.add(type(error).__name__.encode())
        return found

    assert asyncio.run(race()) == {b"%PDF-1.7", b"Forbidden"}


async def test_what_is_no_file_is_refused_at_once(reader: AttachmentReader, root: Path) -> None:
    os.mkfifo(root / "pipe")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(root / "socket"))
    listening.close()
    for name in ("pipe", "socket", "2026"):
        assert await refused(reader, at_path(root / name)) == "The attachment 'invoice.pdf' is not a regular file."


async def test_a_device_is_refused(reader: AttachmentReader, root: Path) -> None:
    try:
        os.mknod(root / "zero", 0o20666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("making a device takes root")
    assert await refused(reader, at_path(root / "zero")) == "The attachment 'invoice.pdf' is not a regular file."


async def test_a_missing_file_is_named_without_its_path(reader: AttachmentReader, root: Path) -> None:
    for missing in ("gone.pdf", "nowhere/gone.pdf", "2026/invoice.pdf/gone.pdf"):
        text = await refused(reader, at_path(root / missing, "gone.pdf"))
        assert text == "The attachment 'gone.pdf' does not exist, or a link leads to it."


async def test_a_root_that_is_not_mounted_may_come_back(root: Path) -> None:
    reader = AttachmentReader(Client(), roots=["/nonexistent-root"])
    with pytest.raises(AttachmentUnavailable):
        await read(reader, at_path("/nonexistent-root/a.pdf"))


async def test_ten_mebibytes_are_the_limit_in_all(reader: AttachmentReader, root: Path) -> None:
    with (root / "large").open("wb") as file:
        file.truncate(10 * MIB - 5)
    large = at_path(root / "large", "large")
    assert sum(len(found.content) for found in await read(reader, inline(b"12345"), large)) == 10 * MIB
    limit = "is too large: there may be 10485760 bytes of attachments in all."
    assert await refused(reader, inline(b"123456"), large) == f"The attachment 'large' {limit}"
    assert await refused(reader, large, inline(b"123456")) == f"The attachment 'notes.txt' {limit}"


@pytest.mark.parametrize("content", ["not base64!", "YQ", "YQ==\n", "é"])
async def test_content_that_is_no_base64_is_refused(content: str, reader: AttachmentReader) -> None:
    text = await refused(reader, NewAttachment(filename="a.txt", content=content))
    assert text == "The attachment 'a.txt' is not base64."


async def test_a_url_is_fetched_with_the_kind_its_server_tells(
    reader: AttachmentReader, server: HttpTargetServer
) -> None:
    server.then(answer(200, body=b"a,b", headers={"Content-Type": "text/CSV; charset=utf-8"}))
    assert await fetch(reader, server) == Attachment("report", "text/csv", b"a,b")
    server.then(answer(200, body=b"a,b", headers={"Content-Type": "multipart/mixed; boundary=x"}))
    assert await fetch(reader, server, filename="report.pdf") == Attachment("report.pdf", "application/pdf", b"a,b")
    assert server.requests[0].method == "GET"


@pytest.mark.parametrize("status", [204, 206, 301, 302, 400, 403, 404, 410])
async def test_a_url_without_a_file_is_refused(status: int, reader: AttachmentReader, server: HttpTargetServer) -> None:
    server.then(redirect(f"{server.url}/other", status) if status in (301, 302) else answer(status, body=b""))
    with pytest.raises(AttachmentRefused) as refusal:
        await fetch(reader, server)
    text = f"The attachment 'report' could not be fetched: the server answered HTTP {status}."
    assert str(refusal.value) == text
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
async def test_a_server_in_trouble_is_asked_again_later(
    status: int, reader: AttachmentReader, server: HttpTargetServer
) -> None:
    server.then(answer(status))
    with pytest.raises(
        AttachmentUnavailable, match=f"'report' could not be fetched. The server answered HTTP {status}"
    ):
        await fetch(reader, server)


@pytest.mark.parametrize("silent", [hang(), drip(200)])
async def test_a_server_that_takes_too_long_is_asked_again_later(
    silent: object, reader: AttachmentReader, server: HttpTargetServer
) -> None:
    server.script.append(silent)  # type: ignore[arg-type]
    with pytest.raises(AttachmentUnavailable) as trouble:
        await fetch(reader, server, deadline=0.2)
    assert "canary" not in str(trouble.value)


async def test_a_file_that_breaks_off_is_not_sent(reader: AttachmentReader) -> None:
    async def talk(visit: Visit) -> None:
        await visit.request()
        await visit.say(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegin")

    async with sink(talk) as server:
        given = NewAttachment(filename="report", url=server.origin)
        with pytest.raises(AttachmentUnavailable) as trouble:
            await reader.read([given], deadline=10, trusted=server.trusted)
    assert str(trouble.value) == "The attachment 'report' could not be fetched. The server's answer broke off."


async def test_a_file_without_end_is_cut_off(reader: AttachmentReader, server: HttpTargetServer) -> None:
    server.then(flood(200))
    with pytest.raises(AttachmentRefused, match="is too large"):
        await fetch(reader, server)
    await server.cut_off()


async def test_a_file_that_comes_compressed_unasked_is_refused(
    reader: AttachmentReader, server: HttpTargetServer
) -> None:
    server.then(answer(200, body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"}))
    with pytest.raises(AttachmentRefused, match="compresses it unasked"):
        await fetch(reader, server)


@pytest.mark.parametrize(
    "url", ["{url}/file", "https://localhost:{port}/file", "https://127.0.0.1:{port}/", "https://127.1/"]
)
async def test_a_url_that_nothing_is_fetched_from_is_refused(
    url: str, reader: AttachmentReader, server: HttpTargetServer
) -> None:
    given = NewAttachment(filename="a.pdf", url=url.format(url=server.url, port=server.url.rpartition(":")[2]))
    assert (await refused(reader, given)).startswith("The attachment 'a.pdf' was not fetched. The destination")
    assert not server.requests
