"""Coroutine handlers share one event loop, so that what they use may be made once, at module level."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import httpx2 as httpx
import pytest
from support.agents import SECONDS, begin, ended, program, run_of
from support.eventually import eventually

from afl.kernel import event_loop
from afl.runtime.agent_poller import AgentPoller, AgentPollerConfig
from afl.runtime.entities import RunnerState
from afl.runtime.evaluator import Evaluator
from afl.runtime.local_runner import LocalRunner
from afl.runtime.memory_store import MemoryStore
from afl.runtime.runner import RunnerConfig, RunnerService
from afl.runtime.task_handlers.handler import Handlers

ELEMENTS = list(range(12))
DOUBLED = [2 * n for n in ELEMENTS]


def run_many(store: MemoryStore, work: Callable[..., Any], concurrency: int = 8) -> dict[str, Any]:
    with LocalRunner(Evaluator(store), Handlers.of({"Double": work}), concurrency=concurrency) as runner:
        return runner.run(program("ns.Many"), {"list": ELEMENTS}).outputs


def test_a_semaphore_of_the_module_is_shared_by_all_calls(store: MemoryStore) -> None:
    limit, inside, most = asyncio.Semaphore(2), 0, 0

    async def double(n: int) -> dict[str, int]:
        nonlocal inside, most
        async with limit:
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.001)
            inside -= 1
        return {"m": 2 * n}

    assert run_many(store, double) == {"all": DOUBLED}
    assert most == 2


class _Doubles(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    connections: ClassVar[set[Any]] = set()

    def do_GET(self) -> None:
        self.connections.add(self.client_address)
        body = str(2 * int(self.path[1:])).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@contextmanager
def doubling_server() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Doubles)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_pooled_client_of_the_module_keeps_its_connections(store: MemoryStore) -> None:
    _Doubles.connections.clear()
    with doubling_server() as url:
        client = httpx.AsyncClient(limits=httpx.Limits(max_connections=3), trust_env=False)

        async def double(n: int) -> dict[str, int]:
            return {"m": int((await client.get(f"{url}/{n}")).text)}

        assert run_many(store, double) == {"all": DOUBLED}
        assert run_many(store, double, concurrency=1) == {"all": DOUBLED}
        event_loop.run(client.aclose())
    assert len(_Doubles.connections) <= 3


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_what_would_end_the_loop_fails_that_call_alone(
    store: MemoryStore, error: type[BaseException]
) -> None:
    async def double(n: int) -> dict[str, int]:
        if n == 3:
            raise error("enough")
        return {"m": 2 * n}

    async def left_behind() -> None:
        raise error("enough")

    async def leaves(n: int) -> dict[str, int]:
        tasks.append(asyncio.ensure_future(left_behind()))
        return {"m": 2 * n}

    tasks: list[asyncio.Task[None]] = []
    with LocalRunner(Evaluator(store), Handlers.of({"Double": double}), concurrency=8) as runner:
        result = runner.run(program("ns.Many"), {"list": ELEMENTS})
    assert not result.success
    assert error.__name__ in str(run_of(store, result.workflow_id).error)
    assert run_many(store, leaves) == {"all": DOUBLED}
    for task in tasks:
        assert isinstance(task.exception(), error)


def test_without_threads_the_loop_of_the_calling_thread_is_kept(store: MemoryStore) -> None:
    limit, threads = asyncio.Semaphore(1), set()

    async def double(payload: dict[str, Any]) -> dict[str, int]:
        async with limit:
            threads.add(threading.current_thread())
            await asyncio.sleep(0)
        return {"m": 2 * payload["n"]}

    def call(payload: dict[str, Any]) -> dict[str, int]:
        return event_loop.run(double(payload))

    poller = AgentPoller(store, Evaluator(store), AgentPollerConfig(max_concurrent=1))
    poller.register("Double", call)
    run = begin(store, "ns.Many", {"list": [1, 2, 3]})
    assert [poller.poll_once() for _ in range(4)] == [1, 1, 1, 0]
    assert run_of(store, run).outputs == {"all": [2, 4, 6]}
    assert threads == {threading.current_thread()}


def test_a_worker_that_is_made_in_a_loop_uses_it(store: MemoryStore) -> None:
    loops: set[object] = set()

    async def double(n: int) -> dict[str, int]:
        loops.add(asyncio.get_running_loop())
        return {"m": 2 * n}

    async def program_of_the_user() -> object:
        config = RunnerConfig(poll_interval_ms=20, http=False)
        service = RunnerService(store, Evaluator(store), config, handlers=Handlers.of({"Double": double}))
        run = begin(store)
        working = asyncio.ensure_future(asyncio.to_thread(service.start))
        await asyncio.to_thread(ended, store, run)
        service.stop()
        await asyncio.wait_for(working, SECONDS)
        assert run_of(store, run).state == RunnerState.COMPLETED
        return asyncio.get_running_loop()

    assert loops == {asyncio.run(program_of_the_user())}


def test_polling_within_a_coroutine_does_not_wait_for_its_own_loop(store: MemoryStore) -> None:
    async def double(n: int) -> dict[str, int]:
        await asyncio.sleep(0)
        return {"m": 2 * n}

    async def program_of_the_user() -> None:
        config = RunnerConfig(http=False)
        service = RunnerService(store, Evaluator(store), config, handlers=Handlers.of({"Double": double}))
        assert service.run_once() == 1

    run = begin(store)
    asyncio.run(program_of_the_user())
    eventually(lambda: run_of(store, run).state == RunnerState.COMPLETED)
