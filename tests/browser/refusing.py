"""A mail server that refuses every mail with the next words of a list."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self


class RefusingMailServer:
    """Says one of the texts after another, each line of it a line of the reply."""

    def __init__(self, texts: Iterable[str]) -> None:
        words = iter(texts)

        class Talk(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self.wfile.write(b"220 here\r\n")
                for line in self.rfile:
                    if line[:4].upper() == b"QUIT":
                        return
                    self.wfile.write(b"".join(_reply(line[:4].upper(), words)))

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True

        self._server = Server(("127.0.0.1", 0), Talk)
        self.port = self._server.server_address[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()


def _reply(command: bytes, words: Iterator[str]) -> Iterator[bytes]:
    if command != b"MAIL":
        yield b"250 fine\r\n"
        return
    for line in next(words).split("\n"):
        yield f"550-{line}\r\n".encode()
    yield b"550 end\r\n"
