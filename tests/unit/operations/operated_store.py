"""A store with something going on in it, for tests of what operators see and do."""

from __future__ import annotations

from typing import Any

from afl.kernel.ids import random_id
from afl.language import compile_source
from afl.operations.program.sources import choose_workflow
from afl.operations.run import runs
from afl.runtime.entities import ServerDefinition, ServerState, TaskDefinition
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program.program import Program
from afl.runtime.task_handlers.handler import Handlers

CHAIN = """namespace t {
    event facet Double(n: Long) => (m: Long)
    event facet Half(n: Long) => (m: Long)
    workflow Chain(n: Long) => (m: Long) andThen {
        a = Double(n = $.n)
        b = Half(n = a.m)
        c = Half(n = b.m)
        yield Chain(m = c.m)
    }
}
"""
MINUTE, HOUR = 60_000, 3_600_000


def program_of(source: str, workflow: str | None = None) -> Program:
    return choose_workflow(compile_source(source, name="chain.afl"), workflow)


def begin(
    store: PersistenceAPI,
    source: str = CHAIN,
    inputs: dict[str, Any] | None = None,
    *,
    workflow: str | None = None,
    **functions: Any,
) -> str:
    """A run that went as far as these handlers (by facet of namespace t) bring it."""
    handlers = Handlers.of({f"t.{name}": function for name, function in functions.items()})
    given = {"n": 3} if inputs is None else inputs
    return runs.start(store, program_of(source, workflow), given, handlers=handlers).run


def task_of(store: PersistenceAPI, run: str, name: str = "") -> TaskDefinition:
    """The newest task of a run (of that facet)."""
    return [task for task in store.get_tasks_by_workflow(run) if name in ("", task.name)][-1]  # type: ignore[arg-type]


def serve(store: PersistenceAPI, *handlers: str, silent_ms: int = 0, **fields: Any) -> ServerDefinition:
    """A registered server; of this process, and running, unless told otherwise."""
    given = {
        "service_name": "afl-agent",
        "server_name": "host-7",
        "state": ServerState.RUNNING,
        "manager": store.owner_id,
        "capacity": 5,
        **fields,
    }
    now = store.now()
    server = ServerDefinition(
        uuid=random_id(),
        server_group="default",
        start_time=now - silent_ms,
        ping_time=now - silent_ms,
        handlers=list(handlers),
        **given,
    )
    store.save_server(server)
    return server


def double(n: int) -> dict[str, int]:
    return {"m": n * 2}


def refuse(n: int) -> dict[str, int]:
    raise ValueError(f"{n} is refused")
