"""A receiver of webhooks that does nothing, as fast as it can: `python -m bench.sink`."""

from __future__ import annotations

import asyncio
import re
from typing import cast

import uvloop

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Sink(asyncio.Protocol):
    """One connection: thanks for every whole request."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)
        self._came = b""

    def data_received(self, data: bytes) -> None:
        self._came += data
        while (head := self._came.find(b"\r\n\r\n")) >= 0:
            length = _LENGTH.search(self._came, 0, head)
            end = head + 4 + (int(length[1]) if length else 0)
            if len(self._came) < end:
                return
            self._came = self._came[end:]
            self._transport.write(_ANSWER)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Sink, "127.0.0.1", 0, backlog=4096)
    print(f"listening on http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
