"""A target outside every process under test: it writes down what reaches it and answers as told."""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Arrival:
    """One message as it came."""

    message_id: int
    session_id: str
    seq: int
    attempt: int
    token: int
    node: str
    content: str


class Recorder(Generic[T]):
    """Arrivals of one kind in the order they came in; `answer` decides the status and may block."""

    def __init__(self, kind: type[T]) -> None:
        self.arrivals: list[T] = []
        self.answer: Callable[[T], int] = lambda arrival: 200
        self.url = ""
        self.most_at_once = 0
        self._kind = kind
        self._at_once = 0
        self._changed = threading.Condition()

    def take(self, document: dict[str, Any]) -> int:
        arrival = msgspec.convert(document, self._kind)
        with self._changed:
            self.arrivals.append(arrival)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            self._changed.notify_all()
        try:
            return self.answer(arrival)
        finally:
            with self._changed:
                self._at_once -= 1

    def expect(self, holds: Callable[[list[T]], bool], *, seconds: float = 30.0) -> list[T]:
        """Wait until the arrivals are as they should be."""
        with self._changed:
            came = self._changed.wait_for(lambda: holds(self.arrivals), seconds)
            assert came, f"only {len(self.arrivals)} arrivals: {self.arrivals[-5:]}"
            return list(self.arrivals)

    def expect_more(self, count: int) -> None:
        """Wait for so many further arrivals."""
        enough = len(self.arrivals) + count
        self.expect(lambda arrivals: len(arrivals) >= enough)


def recording() -> AbstractContextManager[Recorder[Arrival]]:
    """A target of messages."""
    return recording_each(Arrival)


@contextmanager
def recording_each(kind: type[T]) -> Iterator[Recorder[T]]:
    recorder = Recorder(kind)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status = recorder.take(document)
            body = json.dumps({"stale": True}).encode() if status == 409 else b""
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Clients that are killed in the middle of a request are the point; anything else is a fault of this server."""
            if not isinstance(sys.exception(), ConnectionError):
                super().handle_error(request, client_address)

    server = Server(("127.0.0.1", 0), Handler)
    recorder.url = f"http://127.0.0.1:{server.server_port}/"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield recorder
    finally:
        server.shutdown()
        server.server_close()
