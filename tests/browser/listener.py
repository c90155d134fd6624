"""A program that is told of events, and refuses for good what asks to be refused, the first time."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


class _Answer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        event = json.loads(self.rfile.read(int(self.headers["content-length"])))
        refused = event["payload"].get("refuse") and event["attempt"] == 1
        self.send_response(422 if refused else 204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class Listener:
    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Answer)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
