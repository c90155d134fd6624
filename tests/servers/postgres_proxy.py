"""A TCP proxy before PostgreSQL that cuts connections, stops answering, or does either just when a COMMIT goes by."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

Trouble = Literal["cut before commit", "cut after commit", "swallow commit"]

_COMMIT = b"COMMIT"


class PostgresProxy:
    """Forwards bytes between clients and one server until told otherwise; each trouble happens once."""

    def __init__(self, server_url: str) -> None:
        parts = urlsplit(server_url)
        self._server = (parts.hostname or "127.0.0.1", parts.port or 5432)
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.url = urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}"))
        self.happened = threading.Event()
        self._trouble: Trouble | None = None
        self._then_holds = False
        self._forwarding = threading.Event()
        self._forwarding.set()
        self._guard = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._committed: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def at_next_commit(self, trouble: Trouble, *, then_hold: bool = False) -> None:
        """Cut before the server sees the COMMIT, or after it and before its answer; or swallow it, and leave both waiting.

        Whoever comes back after a cut waits until `recover`, if so told.
        """
        self.happened.clear()
        self._then_holds = then_hold
        self._trouble = trouble

    def relent(self) -> None:
        """Make no trouble at the next commit after all."""
        self._trouble = None

    def black_hole(self) -> None:
        """Take bytes and pass none on, with every connection left open, until `recover`."""
        self._forwarding.clear()

    def recover(self) -> None:
        self._forwarding.set()

    def cut_all(self) -> None:
        with self._guard:
            for pair in self._pairs:
                _cut(*pair)
            self._pairs.clear()

    def close(self) -> None:
        self._listener.close()
        self.cut_all()
        self.recover()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(self._server)
                except OSError:
                    _cut(client)
                    continue
                with self._guard:
                    self._pairs.append((client, server))
                threading.Thread(target=self._to_server, args=(client, server), daemon=True).start()
                threading.Thread(target=self._to_client, args=(client, server), daemon=True).start()

    def _to_server(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                self._forwarding.wait()
                if self._trouble is not None and _COMMIT in data:
                    self._make_trouble(client, server, data)
                else:
                    server.sendall(data)
        _cut(client, server)

    def _make_trouble(self, client: socket.socket, server: socket.socket, data: bytes) -> None:
        trouble, self._trouble = self._trouble, None
        match trouble:
            case "cut before commit":
                _cut(client, server)
                self.happened.set()
            case "swallow commit":
                self.happened.set()
            case _:
                self._committed.add(server)
                server.sendall(data)

    def _to_client(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                self._forwarding.wait()
                # What answered the statements before COMMIT may still come; the answer to COMMIT itself may not.
                if server in self._committed:
                    if _COMMIT in data:
                        if self._then_holds:
                            self._forwarding.clear()
                        _cut(client, server)
                        self.happened.set()
                    continue
                client.sendall(data)
        _cut(client, server)


@contextmanager
def proxy_before(server_url: str) -> Iterator[PostgresProxy]:
    proxy = PostgresProxy(server_url)
    try:
        yield proxy
    finally:
        proxy.close()


def _cut(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
