"""A web application with workflows: orders that are charged, released by a person, and shipped.

    uvicorn --app-dir examples/web_app app:app

and open http://127.0.0.1:8000. It needs `pip install "agentflow-afl[web]"`. `main.py` drives it without a browser.
"""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from afl.kernel.extras import require_extras

require_extras("web")

from fastapi import FastAPI, Header, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse
from pydantic import BaseModel

import afl

HERE = Path(__file__).parent


class Shop:
    """The handlers of the workflow; a real one would call a payment service."""

    @afl.handler("shop.Charge")
    async def charge(self, order: str, amount: float, context: afl.HandlerContext) -> dict[str, str]:
        context.progress(0.5, f"charging {amount:.2f}")
        return {"receipt": f"receipt-{order}"}

    @afl.handler("shop.Ship")
    def ship(self, order: str) -> dict[str, str]:
        return {"parcel": f"parcel-{order}"}


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    store = os.environ.get("AFL_STORE", ".afl/web_app.db")
    async with afl.connect(store) as flow, flow.worker(Shop(), concurrency=20):
        app.state.flow = flow
        yield


app = FastAPI(lifespan=lifespan, title="Orders")


@app.exception_handler(afl.AgentFlowError)
async def refuse(request: Request, error: afl.AgentFlowError) -> JSONResponse:
    """404 if there is no such order, 409 if there is another with its number, 503 while the store is away."""
    return JSONResponse({"detail": str(error)}, error.status)


class Order(BaseModel):
    order: str
    amount: float


@app.get("/", response_class=HTMLResponse)
async def page() -> str:
    return (HERE / "page.html").read_text()


@app.post("/orders", status_code=202)
async def submit(order: Order) -> dict[str, str]:
    """Start a workflow. Sending an order twice starts it once: its number is the id of the run."""
    handle = await app.state.flow.start(
        HERE / "orders.afl", id=f"order-{order.order}", tags={"kind": "order"}, **order.model_dump()
    )
    return {"id": handle.id}


@app.get("/orders/{order}")
async def show(order: str) -> dict[str, Any]:
    line = await (await app.state.flow.get(f"order-{order}")).status()
    return {"order": order, "state": line.state, "error": line.error}


@app.get("/orders/{order}/result")
async def result(order: str) -> dict[str, Any]:
    """Wait for the end, a minute at most. Thousands of such requests need no threads."""
    try:
        return await (await app.state.flow.get(f"order-{order}")).result(timeout=60)
    except TimeoutError as error:
        raise HTTPException(504, "the order is not done yet") from error


@app.get("/orders/{order}/events")
async def events(order: str, last_event_id: str = Header("")) -> StreamingResponse:
    """Server-sent events. A browser that lost its connection sends the id of the last one, and misses nothing."""
    handle = await app.state.flow.get(f"order-{order}")

    async def stream() -> AsyncIterator[str]:
        async for event in handle.events(after=last_event_id):
            yield f"id: {event.position}\ndata: {json.dumps(asdict(event))}\n\n"

    return StreamingResponse(stream(), media_type="text/event-stream")


@app.post("/orders/{order}/release")
async def release(order: str) -> dict[str, str]:
    """A person approves."""
    approvals = await app.state.flow.approvals(run=f"order-{order}")
    if not approvals:
        raise HTTPException(409, "the order does not wait for a release")
    await app.state.flow.approve(approvals[0].id, {"ok": True})
    return {"released": order}
