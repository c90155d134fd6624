"""Every example, run as its page says."""

import json
import os
import secrets
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from standardwebhooks import Webhook

from tests.docs.pages import ROOT
from tests.docs.reader import PATIENCE, Terminal
from tests.servers.postgres import free_port

EXAMPLES = ROOT / "examples"
Serve = Callable[..., Terminal]


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PILLARBOX_")}
    return kept | {"PATH": f"{Path(sys.executable).parent}:{kept['PATH']}", "PYTHONUNBUFFERED": "1", **more}


def run(name: str, folder: Path, *, given: str = "", **more: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, EXAMPLES / name],
        cwd=folder,
        env=environment(HOME=str(folder), **more),
        input=given,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def ask(url: str, *, body: bytes | None = None, method: str = "GET", **headers: str) -> tuple[int, dict[str, object]]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        with urlopen(Request(url, body, named, method=method), timeout=PATIENCE) as answer:  # noqa: S310
            return answer.status, json.loads(answer.read())
    except HTTPError as refused:
        with refused:
            return refused.code, {}


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    started: list[Terminal] = []

    def start(command: str, *, until: str, **more: str) -> Terminal:
        terminal = Terminal(command, folder=tmp_path, environment=environment(HOME=str(tmp_path), **more))
        started.append(terminal)
        assert terminal.wait_for(until), terminal.printed
        return terminal

    yield start
    for terminal in started:
        terminal.end()


def test_the_page_names_every_example() -> None:
    page = (EXAMPLES / "README.md").read_text()
    assert {file.name for file in EXAMPLES.glob("*.py") if f"({file.name})" not in page} == set()


def test_a_bot_answers_each_person_in_order_though_a_message_fails(tmp_path: Path) -> None:
    said = run("chat_bot.py", tmp_path, given="ada: difficult\nada: two\nbob: one\n")
    assert [line for line in said if line.startswith("ada")] == ["ada: difficult -> tluciffid", "ada: two -> owt"]
    assert "bob: one -> eno" in said


def test_an_order_and_its_message_are_both_there_or_neither(tmp_path: Path, postgres_url: str) -> None:
    key = b64encode(secrets.token_bytes(32)).decode()
    printed = run("transactional_orders.py", tmp_path, PILLARBOX_DATABASE=postgres_url, PILLARBOX_SECRETS__KEY=key)
    assert printed == ["order 2: out of stock", "orders [1], messages 1"]


def test_a_webhook_is_handled_once_however_often_it_comes(serve: Serve) -> None:
    port, secret = free_port(), f"whsec_{b64encode(secrets.token_bytes(24)).decode()}"
    server = serve(
        f"uvicorn --app-dir {EXAMPLES} --port {port} webhook_consumer:app",
        until="Uvicorn running on",
        WEBHOOK_SECRET=secret,
    )
    body, now = b'{"order": 42}', datetime.now(UTC)
    headers = {
        "webhook_id": "msg_1",
        "webhook_timestamp": str(int(now.timestamp())),
        "webhook_signature": Webhook(secret).sign("msg_1", now, body.decode()),
    }
    url = f"http://127.0.0.1:{port}/webhooks"
    for _ in range(2):
        assert ask(url, body=body, method="POST", **headers) == (200, {"parcel": "parcel-42"})
    assert ask(url, body=b'{"order": 43}', method="POST", **headers) == (401, {})
    assert server.printed.count("shipping order 42") == 1


def test_a_fastapi_shop_confirms_an_order_once(serve: Serve) -> None:
    port = free_port()
    serve(f"uvicorn --app-dir {EXAMPLES} --port {port} fastapi_shop:app", until="Uvicorn running on")
    url = f"http://127.0.0.1:{port}"
    first = ask(f"{url}/orders/42?email=ada@example.com", method="POST")
    assert first[0] == 202
    assert ask(f"{url}/orders/42?email=ada@example.com", method="POST") == first
    assert ask(f"{url}/orders/43?email=nobody", method="POST")[0] == 422
    for _ in range(1000):
        shown = ask(f"{url}/messages/{first[1]['message_id']}")
        if shown[1]["status"] == "sent":
            break
    assert shown == (200, {"status": "sent", "attempts": 1})


def test_a_django_shop_queues_when_its_order_is_committed(serve: Serve) -> None:
    port = free_port()
    serve(f"python {EXAMPLES / 'django_shop.py'} runserver --noreload 127.0.0.1:{port}", until="Quit the server")
    url = f"http://127.0.0.1:{port}/orders"
    assert ask(f"{url}/7") == (200, {"queued": ["Order 7"]})
    assert ask(f"{url}/7") == (200, {"queued": ["Order 7"]})
