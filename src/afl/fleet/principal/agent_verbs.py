"""The verbs of our own agents: fetch a run, say that it lives, ship what happened."""

from __future__ import annotations

import asyncio

import msgspec

from afl.fleet.answers import Acked, Commands, FetchedRun, encode_answer
from afl.fleet.principal import reports, runs, shipping
from afl.fleet.principal.desk import Answer, Desk, seconds
from afl.fleet.principal.store import Change, agent_topic
from afl.fleet.protocol import OK, success
from afl.fleet.requests import FetchRun, Heartbeat, Ship
from afl.kernel.codec import decode
from afl.kernel.database import Row


async def fetch_run(desk: Desk, request: FetchRun) -> Answer:
    """A run, as soon as there is one; it goes back to the queue if the agent is gone by then."""
    desk.registry.seen(request.agent_id, request.incarnation)
    run = await _next_run(desk, request)
    if run is None:
        return Answer(OK)
    run_id, epoch = run["run_id"], run["epoch"]
    fetched = FetchedRun(
        run_id=run_id,
        epoch=epoch,
        attempt=run["requeued"] + 1,
        params=decode(run["params"]),
        workflow=msgspec.Raw(run["workflow"].encode()),
    )
    return Answer(
        success(encode_answer(fetched)),
        lambda: desk.change(lambda change: runs.unclaim(change, run_id, epoch)),
    )


async def heartbeat(desk: Desk, request: Heartbeat) -> Answer:
    """Commands, as soon as there are any. An agent without runs costs no write."""
    desk.registry.seen(request.agent_id, request.incarnation, request.slots)

    renewed = False

    async def look() -> Commands | None:
        """Only the first look renews: the agent may be dead by the time of a later one."""
        nonlocal renewed
        if not request.running:
            return None
        if renewed:
            found = await desk.store.read_soon(lambda tx: reports.commands(tx, request.running))
        else:
            found = await desk.change(_beat)
            renewed = True
        return found if found.cancel or found.lost else None

    def _beat(change: Change) -> Commands:
        return reports.heartbeat(change, request.agent_id, request.incarnation, request.running)

    topics = [agent_topic(request.incarnation)]
    # However short the timeout is, an agent that is there gets to say so in time.
    parked_ms = min(request.wait_ms, desk.store.lease_ms // 3)
    commands = await desk.parking.until(look, topics, seconds(parked_ms))
    return Answer(success(encode_answer(commands or Commands())))


async def ship(desk: Desk, request: Ship) -> Answer:
    """Acknowledged once it is stored, and published then."""
    cargo = await desk.change(lambda change: shipping.store_records(change, request))
    await desk.publish(cargo.blocks)
    return Answer(success(encode_answer(Acked(acked=cargo.acked))))


async def _next_run(desk: Desk, request: FetchRun) -> Row | None:
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds(request.wait_ms)
    with desk.fetchers.place(request.agent_id, request.incarnation) as place:
        while True:
            place.calm()
            run = await desk.change(
                lambda change: runs.claim(change, request.agent_id, request.incarnation, held=request.held)
            )
            if run is not None or place.gone or place.given is not None:
                break
            if not await place.wait(max(0.0, until - loop.time())) or place.given is not None:
                break
    # One may have been handed over while it claimed another: that one goes back to the queue.
    if run is not None and place.given is not None:
        extra = place.given
        await desk.change(lambda change: runs.unclaim(change, extra["run_id"], extra["epoch"]))
    return run or place.given
