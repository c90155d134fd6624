"""A server that answers by a table, and remembers what it was asked."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


Answer = tuple[int, Any]


@dataclass
class Scripted:
    """`answers` maps `METHOD /path` (without what follows a `?`) to a status and a body, or to a function of the request."""

    url: str = ""
    answers: dict[str, Answer | Callable[[Asked], Answer]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    def answer(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        found = self.answers.get(f"{asked.method} {asked.path.partition('?')[0]}", (404, b""))
        return found(asked) if callable(found) else found

    def asked_for(self, path: str) -> list[Asked]:
        return [each for each in self.asked if each.path.partition("?")[0] == path]


@contextmanager
def scripted() -> Iterator[Scripted]:
    script = Scripted()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, told = script.answer(Asked(self.command, self.path, headers, body))
            answer = told if isinstance(told, bytes) else json.dumps(told).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)
            except ConnectionError:
                self.close_connection = True

        do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815 - the library's names

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    script.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
