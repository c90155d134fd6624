"""The part of Telegram's Bot API that long polling needs, behaving as its documentation says.

An update stays until a question with a higher offset confirms it; a question is held open until there is something to say
or its time is up; a second question ends the first with 409, and so does a webhook that is set.
"""

import json
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECONDS = 30.0
Answer = tuple[int, dict[str, Any] | bytes]


def failure(code: int, description: str, **parameters: Any) -> Answer:
    told = {"ok": False, "error_code": code, "description": description}
    return code, told | ({"parameters": parameters} if parameters else {})


class TelegramApi:
    """One bot and its updates; `script` holds answers to give instead, each once."""

    def __init__(self, token: str) -> None:
        self.url = ""
        self.webhook_set = False
        self.script: deque[Answer] = deque()
        self.questions: list[dict[str, Any]] = []
        self.handed_over = 0
        self.sent: list[dict[str, Any]] = []
        self.said: list[str] = []
        self.actions: list[dict[str, Any]] = []
        self.refusals: deque[Answer] = deque()
        self.files: dict[str, bytes] = {}
        self.changes: list[tuple[str, dict[str, Any]]] = []
        self.before_sending: Callable[[dict[str, Any]], None] = lambda message: None
        self.before_confirming: Callable[[dict[str, Any]], None] = lambda question: None
        self._token = token
        self._updates: list[dict[str, Any]] = []
        self._asked = 0
        self._changed = threading.Condition()

    def post(self, *updates: dict[str, Any]) -> None:
        """People have written."""
        with self._changed:
            self._updates += updates
            self._changed.notify_all()

    def expect(self, holds: Callable[[], bool], what: str = "what was expected") -> None:
        """Wait until something is so."""
        with self._changed:
            assert self._changed.wait_for(holds, SECONDS), f"{what} did not happen; questions: {self.questions[-5:]}"

    def expect_all_confirmed(self) -> None:
        self.expect(lambda: not self._updates, "the confirmation of every update")

    def answer(self, path: str, question: dict[str, Any]) -> Answer:
        if path == f"/bot{self._token}/sendMessage":
            return self._send(question)
        if path in (f"/bot{self._token}/editMessageText", f"/bot{self._token}/deleteMessage"):
            return self._change(path.rpartition("/")[2], question)
        if path == f"/bot{self._token}/sendChatAction":
            return self._act(question)
        if path != f"/bot{self._token}/getUpdates":
            return failure(401, "Unauthorized")
        self.before_confirming(question)
        with self._changed:
            self.questions.append(question)
            self._changed.notify_all()
            if self.script:
                return self.script.popleft()
            if self.webhook_set:
                return failure(409, "Conflict: can't use getUpdates method while webhook is active")
            return self._get_updates(question)

    def _act(self, action: dict[str, Any]) -> Answer:
        with self._changed:
            self.actions.append(action)
            self._changed.notify_all()
        return 200, {"ok": True, "result": True}

    def _send(self, message: dict[str, Any]) -> Answer:
        """A message of the bot; `said` is what its chats then show, `sent` all that was tried."""
        self.before_sending(message)
        with self._changed:
            self.sent.append(message)
            self._changed.notify_all()
            if self.refusals:
                return self.refusals.popleft()
            self.said.append(message["text"])
            self._changed.notify_all()
            return 200, {"ok": True, "result": {"message_id": 1000 + len(self.said), "text": message["text"]}}

    def _change(self, what: str, message: dict[str, Any]) -> Answer:
        """A message that is edited or deleted later."""
        with self._changed:
            self.changes.append((what, message))
            if self.refusals:
                return self.refusals.popleft()
            return 200, {"ok": True, "result": True}

    def download(self, path: str) -> Answer:
        """`getMe`; `getFile` by its id, and then the file by its path."""
        if path == f"/bot{self._token}/getMe":
            return 200, {"ok": True, "result": {"id": 1, "is_bot": True, "first_name": "Desk", "username": "desk_bot"}}
        if path.startswith(f"/bot{self._token}/getFile?file_id="):
            name = path.partition("file_id=")[2]
            if name not in self.files:
                return failure(400, "Bad Request: invalid file_id")
            return 200, {"ok": True, "result": {"file_id": name, "file_path": f"files/{name}"}}
        name = path.removeprefix(f"/file/bot{self._token}/files/")
        return (200, self.files[name]) if name in self.files else (404, b"")

    def _get_updates(self, question: dict[str, Any]) -> Answer:
        self._asked += 1
        mine = self._asked
        self._updates = [update for update in self._updates if update["update_id"] >= question.get("offset", 0)]
        self._changed.notify_all()
        deadline = time.monotonic() + question.get("timeout", 0)
        while not self._updates and mine == self._asked and (left := deadline - time.monotonic()) > 0:
            self._changed.wait(left)
        if mine != self._asked:
            return failure(409, "Conflict: terminated by other getUpdates request; make sure that only one bot runs")
        return 200, {"ok": True, "result": self._updates[: question.get("limit", 100)]}

    def has_answered(self, told: dict[str, Any] | bytes) -> None:
        """An answer has left."""
        with self._changed:
            updates = told.get("result") if isinstance(told, dict) else None
            self.handed_over += len(updates) if isinstance(updates, list) else 0
            self._changed.notify_all()

    def end(self) -> None:
        """Let go of whoever is still held."""
        with self._changed:
            self._asked += 1
            self._changed.notify_all()


@contextmanager
def telegram_api(token: str) -> Iterator[TelegramApi]:
    api = TelegramApi(token)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body leave one after the other, and the second must not wait to hear of the first.
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.tell(*api.answer(self.path, question))

        def do_GET(self) -> None:
            self.tell(*api.download(self.path))

        def tell(self, status: int, told: dict[str, Any] | bytes) -> None:
            body = told if isinstance(told, bytes) else json.dumps(told).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                api.has_answered(told)
            except ConnectionError:
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A process that was killed leaves a connection behind; anything else is a fault of this server."""
            if not isinstance(sys.exception(), ConnectionError):
                super().handle_error(request, client_address)

    server = Server(("127.0.0.1", 0), Handler)
    api.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        api.end()
        server.shutdown()
        server.server_close()
        thread.join()
