"""HTTP/1.1 as uvicorn speaks it, with a limit on the header block and on the time it may take to arrive."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from pillarbox.api.head import LARGEST_HEADERS, headers_too_large
from pillarbox.api.problems import Problem

_HEADER_SECONDS = 30.0
_LINGER_SECONDS = 2.0
_UPGRADE = re.compile(rb"\r\nupgrade:", re.IGNORECASE)
# Room for the request line and the separators, so that the application judges what is just about the limit.
_LARGEST_HEAD = LARGEST_HEADERS + 16 * 1024


class BoundedProtocol(HttpToolsProtocol):
    """httptools itself takes headers of any size for any time."""

    _arrived = 0
    _between = True
    _in_headers = False
    _ended = False
    _refused = False
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._between:
            data = _without_upgrade(data)
        self._ended = False
        # The parser looks first: whole headers may have come together with the start of a large body.
        super().data_received(data)
        if self._in_headers and not self._refused:
            # What came before the end of another request in the same piece is not ours to count.
            self._arrived += 0 if self._ended else len(data)
            if self._arrived > _LARGEST_HEAD:
                self._refuse(headers_too_large())
            elif self._deadline is None:
                self._expect_headers()

    def on_message_begin(self) -> None:
        self._between, self._in_headers, self._arrived = False, True, 0
        super().on_message_begin()
        self.scope["state"]["hang_up"] = self.transport.abort

    def on_headers_complete(self) -> None:
        self._in_headers = False
        self._forget_deadline()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._between = self._ended = True
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(Problem(400, "not-http", "The request is not HTTP/1.1 that can be read."))

    def _refuse(self, problem: Problem) -> None:
        """Answer, then take what still comes for a moment: closing on a caller that sends would lose the answer."""
        answer = problem.answer()
        body = answer.body or b""
        head: list[Any] = [STATUS_LINE[answer.status], b"content-type: ", answer.media_type]
        self.transport.write(
            b"".join([*head, b"\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body), body])
        )
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._refused = True
        self._forget_deadline()
        self._deadline = self.loop.call_later(_LINGER_SECONDS, self.transport.close)

    def _expect_headers(self) -> None:
        self._deadline = self.loop.call_later(_HEADER_SECONDS, self.transport.close)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def _without_upgrade(data: bytes) -> bytes:
    """A request for an upgrade is one to ignore, but the parser would take the body after it for another protocol's."""
    head, blank, body = data.partition(b"\r\n\r\n")
    return _UPGRADE.sub(b"\r\nx-not-upgraded:", head) + blank + body if _UPGRADE.search(head) else data
