"""An API that sends confirmations and shows what became of them, with workers beside the requests."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException, Request

from pillarbox import Email, Pillarbox
from pillarbox.errors import InvalidInput, NotFound


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with Pillarbox.open(os.environ.get("PILLARBOX_DATABASE", "sqlite:///fastapi-shop.db")) as box:
        await box.tenants.set("shop", providers={"email": {"provider": "sandbox"}})
        app.state.box = box
        working = asyncio.create_task(box.run())
        yield
        box.stop()
        await working


app = FastAPI(title="Shop", lifespan=lifespan)


@app.post("/orders/{number}", status_code=202)
async def place_order(number: int, email: str, request: Request) -> dict[str, str]:
    box: Pillarbox = request.app.state.box
    confirmation = Email(to=email, subject=f"Order {number}", text="It is on its way.")
    try:
        message_id = await box.outbound.send("shop", confirmation, idempotency_key=f"order-{number}")
    except InvalidInput as fault:
        raise HTTPException(422, str(fault)) from fault
    return {"message_id": message_id}


@app.get("/messages/{message_id}")
async def show_message(message_id: str, request: Request) -> dict[str, object]:
    box: Pillarbox = request.app.state.box
    try:
        message = await box.outbound.get(message_id)
    except NotFound as fault:
        raise HTTPException(404, "There is no such message.") from fault
    return {"status": message.status, "attempts": message.attempt_count}
