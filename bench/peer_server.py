"""A peer as a service: `python -m bench.peer_server diskcache sqlite:///x.db`. No library comes with one, so it is put
behind the smallest app that speaks the two calls of the v1 protocol which the measurement makes."""

from __future__ import annotations

import asyncio
import socket
import sys

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bench.peers_inbox import Peer, open_peer


def app_over(peer: Peer) -> Starlette:
    async def try_begin(request: Request) -> Response:
        asked = msgspec.json.decode(await request.body())
        return answer({"status": "Acquired", "leaseId": await peer.begin(asked["key"])})

    async def mark_processed(request: Request) -> Response:
        asked = msgspec.json.decode(await request.body())
        await peer.mark(asked["key"], asked["leaseId"])
        return answer({"status": "Processed"})

    calls = {"try-begin": try_begin, "mark-processed": mark_processed}
    return Starlette(routes=[Route(f"/v1/inbox/{verb}", call, methods=["POST"]) for verb, call in calls.items()])


def answer(body: dict[str, str]) -> Response:
    return Response(msgspec.json.encode(body), media_type="application/json")


async def main(name: str, url: str) -> None:
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    async with open_peer(name, url) as peer:
        config = uvicorn.Config(app_over(peer), ws="none", lifespan="off", log_config=None, access_log=False)
        print(f"listening on http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
        await uvicorn.Server(config).serve(sockets=[listening])


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvicorn.Config("", log_config=None).get_loop_factory()) as runner:
        runner.run(main(sys.argv[1], sys.argv[2]))
