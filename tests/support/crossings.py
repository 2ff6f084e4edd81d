"""Bridges for tests: a store with hosts of bridges over it, and workflows whose steps are done elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from afl.bridges.service import BridgeService
from afl.kernel.settings import Settings, load_settings
from afl.models import Model
from afl.operations.program.sources import choose_workflow, compile_sources, from_text
from afl.operations.run import runs
from afl.operations.turn.turn_service import TurnModule
from afl.operations.work.hosting import TurnStaff, bridge_service
from afl.operations.work.offers import Offer
from afl.runtime.entities import TaskDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program.program import Program
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.types import WorkflowId
from afl.turns.definition import AgentDefinition
from support.eventually import eventually

POLL_MS = 200


def program(source: str) -> Program:
    return choose_workflow(compile_sources(from_text(source, "test.afl")))


class Crossing:
    """One store, and everything a test opens over it; all of it ends with the block."""

    def __init__(self, store: PersistenceAPI, url: str, **settings: Any) -> None:
        self.store = store
        given = {"store": url, "poll_interval_ms": POLL_MS, "messages": "memory", **settings}
        self.settings: Settings = load_settings(given, environ={})
        self._stack = ExitStack()
        self._hosts: list[BridgeService] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for service in self._hosts:
            service.stop()
        self._stack.close()

    def host(
        self, answering: Mapping[str, Callable[..., Any]] | None = None, **factories: Any
    ) -> BridgeService:
        """A process that hosts bridges, as far as the store can tell; `openings` replace the usual ones."""
        service = bridge_service(self.store, self.settings, Offer(answering=answering or {}), sweeps=True)
        service._factories.update(factories)
        service.start()
        self._hosts.append(service)
        return service

    def stop(self, service: BridgeService) -> None:
        self._hosts.remove(service)
        service.stop()

    def staff(self, *agents: AgentDefinition, model: Model) -> None:
        """A worker of turns with these agents."""
        self._stack.enter_context(TurnStaff(self.store, self.settings, TurnModule(agents, model, {})))

    def run(
        self,
        source: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        bridges: BridgeService,
        handlers: Handlers | None = None,
    ) -> runs.RunReport:
        """A run, driven here until it ends or nobody here can go on."""
        return runs.start(
            self.store,
            program(source),
            inputs,
            handlers=handlers or Handlers(),
            settings=self.settings,
            bridges=bridges,
        )

    def resume(self, run: str, bridges: BridgeService) -> runs.RunReport:
        return runs.resume(self.store, run, handlers=Handlers(), settings=self.settings, bridges=bridges)

    def submit(self, source: str, inputs: Mapping[str, Any] | None = None) -> str:
        """A run that nobody drives; it has come as far as it can without others."""
        evaluator = Evaluator(self.store)
        run = evaluator.submit(program(source), inputs)
        evaluator.resume(run)
        return run

    def go_on(self, run: str) -> str:
        """Evaluate what has come in; the state of the run."""
        Evaluator(self.store).resume(WorkflowId(run))
        found = self.store.get_run(WorkflowId(run))
        assert found is not None
        return found.state

    def until(self, run: str, state: str) -> None:
        eventually(lambda: self.go_on(run) == state, lambda: self.tasks(run))

    def tasks(self, run: str) -> list[TaskDefinition]:
        return self.store.get_tasks_by_workflow(WorkflowId(run))

    def task(self, run: str) -> TaskDefinition:
        (task,) = self.tasks(run)
        return task

    def is_told(self, run: str) -> bool:
        """Whether the other side knows of all ends."""
        return not any(task.hold for task in self.tasks(run))


class Gate:
    """Work that waits until a test lets it go on."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()

    def pass_through(self) -> None:
        self.entered.set()
        assert self.opened.wait(60)
