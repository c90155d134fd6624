"""Takes signed webhooks (Standard Webhooks) and handles each once, however often it comes.

A sender repeats what it is unsure about, so it hears 200 when the work is done, and 409 while another request does it.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from standardwebhooks import Webhook, WebhookVerificationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pillarbox import Pillarbox

signature = Webhook(os.environ["WEBHOOK_SECRET"])


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    async with Pillarbox.open("sqlite:///webhooks.db") as box:
        app.state.box = box
        yield


async def ship(order: int) -> str:
    print(f"shipping order {order}", flush=True)
    return f"parcel-{order}"


async def receive(request: Request) -> Response:
    try:
        event = signature.verify(await request.body(), dict(request.headers))
    except WebhookVerificationError:
        return Response(status_code=401)
    box: Pillarbox = request.app.state.box
    async with box.inbox.once(f"shop:webhook:{request.headers['webhook-id']}") as first:
        if first:
            first.keep({"parcel": await ship(event["order"])})
    if first.status == "Busy":
        return Response(status_code=409, headers={"retry-after": "5"})
    return JSONResponse(first.result)


app = Starlette(routes=[Route("/webhooks", receive, methods=["POST"])], lifespan=lifespan)
