"""What tests of pollers and runners share: runs to work on, services in threads, and stores that tell on them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, Protocol, TypeVar, cast

from afl.kernel.notify import Subscription
from afl.language import compile_source
from afl.runtime.entities import RunDefinition, RunnerState, ServerDefinition, TaskDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program.program import Program
from afl.runtime.types import StepId, WorkflowId
from afl.runtime.worker.held_runs import HeldRuns
from afl.runtime.worker.results import TaskResult

T = TypeVar("T")
SECONDS = 60.0  # after this long, what should have happened will not
LONG = 600_000  # milliseconds that do not pass during a test

DOUBLE = """
namespace ns {
    event facet Double(n: Long) => (m: Long)
    workflow Once(n: Long) => (m: Long) andThen {
        d = Double($.n)
        yield Once(m = d.m)
    }
    workflow Twice(n: Long) => (m: Long) andThen {
        first = Double($.n)
        second = Double(first.m)
        yield Twice(m = second.m)
    }
    workflow Many(list: [Long]) => (all: [Long]) andThen foreach n in $.list {
        d = Double(n)
        yield Many(all = [d.m])
    }
}
"""


def double(payload: dict[str, Any]) -> dict[str, Any]:
    return {"m": payload["n"] * 2}


def program(workflow: str = "ns.Once", source: str = DOUBLE) -> Program:
    return Program({"program": compile_source(source).program, "workflow": workflow})


def submit(
    store: PersistenceAPI,
    workflow: str = "ns.Once",
    inputs: dict[str, Any] | None = None,
    source: str = DOUBLE,
    **options: Any,
) -> WorkflowId:
    """A run that nobody has begun; without inputs, its `n` is 3 if it has one."""
    made = program(workflow, source)
    usual = {param.name: 3 for param in made.workflow.params if param.name == "n"}
    return Evaluator(store).submit(made, inputs or usual, **options)


def begin(
    store: PersistenceAPI,
    workflow: str = "ns.Once",
    inputs: dict[str, Any] | None = None,
    source: str = DOUBLE,
    **options: Any,
) -> WorkflowId:
    """A run that waits for outside work."""
    evaluator = Evaluator(store)
    run = submit(store, workflow, inputs, source, **options)
    evaluator.resume(run)
    return run


def run_of(store: PersistenceAPI, workflow_id: str) -> RunDefinition:
    run = store.get_run(WorkflowId(workflow_id))
    assert run is not None
    return run


def only_task(store: PersistenceAPI, workflow_id: str) -> TaskDefinition:
    (task,) = store.get_tasks_by_workflow(WorkflowId(workflow_id))
    return task


def server_of(store: PersistenceAPI, uuid: str) -> ServerDefinition:
    server = store.get_server(uuid)
    assert server is not None
    return server


def ended(store: PersistenceAPI, workflow_id: str) -> RunDefinition:
    """The run, once it is over."""
    return received(store, f"run:{workflow_id}", lambda: _over(run_of(store, workflow_id)))


def _over(run: RunDefinition) -> RunDefinition | None:
    return run if run.is_over or run.state == RunnerState.PAUSED else None


def received(store: PersistenceAPI, topic: str, look: Callable[[], T | None]) -> T:
    """What `look` finds, looking again whenever the topic rings (and now and then, as notifies may be lost)."""
    until = time.monotonic() + SECONDS
    with store.subscribe([topic]) as subscription:
        while not (found := look()):
            assert time.monotonic() < until, "it did not happen"
            subscription.wait(0.2)
    return found


def store_results(evaluator: Evaluator, runs: HeldRuns, results: Iterable[TaskResult]) -> None:
    """Report results as a worker does, and store them."""
    with evaluator.batch(runs):
        for result in results:
            runs.reporting = result
            if result.error is None:
                evaluator.continue_step(StepId(result.task.step_id), result.value)
            else:
                evaluator.fail_step(StepId(result.task.step_id), str(result.error))


class Gate:
    """A callback that says when it was called, and answers when it is let."""

    def __init__(self, answer: Callable[[dict[str, Any]], dict[str, Any]] = double) -> None:
        self._answer = answer
        self._open = threading.Event()
        self._changed = threading.Condition()
        self.calls: list[dict[str, Any]] = []
        self.threads: list[str] = []

    def __call__(self, payload: dict[str, Any]) -> dict[str, Any]:
        with self._changed:
            self.calls.append(payload)
            self.threads.append(threading.current_thread().name)
            self._changed.notify_all()
        assert self._open.wait(SECONDS), "nobody opened the gate"
        return self._answer(payload)

    def called(self, times: int = 1) -> None:
        """Wait until it was called so often."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.calls) >= times, SECONDS), "it was not called"

    def open(self) -> None:
        """Let everybody through, from now on."""
        self._open.set()


class Service(Protocol):
    """A poller or a runner."""

    @property
    def is_running(self) -> bool: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...


class Recorder:
    """A store that writes down what is called, and fails where it is told to."""

    def __init__(self, store: PersistenceAPI) -> None:
        self._store = store
        self._changed = threading.Condition()
        self._failures: dict[str, list[Exception]] = {}
        self.calls: list[tuple[str, str]] = []
        self.servers: list[ServerDefinition] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return self._recorded(name, found) if callable(found) else found

    def _recorded(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            with self._changed:
                failures = self._failures.get(name)
                failure = failures.pop(0) if failures else None
            try:
                if failure is not None:
                    raise failure
                return method(*args, **options)
            finally:  # once it has had its effect
                with self._changed:
                    self.calls.append((name, threading.current_thread().name))
                    if failure is None and name == "save_server":
                        self.servers.append(deepcopy(args[0]))
                    self._changed.notify_all()

        return call

    @property
    def api(self) -> PersistenceAPI:
        return cast(PersistenceAPI, self)

    def names(self) -> list[str]:
        return [name for name, _ in list(self.calls)]

    def count(self, name: str) -> int:
        return self.names().count(name)

    def states(self) -> list[str]:
        """The states that server records were saved with, repetitions left out."""
        saved = [server.state for server in list(self.servers)]
        return [state for i, state in enumerate(saved) if i == 0 or saved[i - 1] != state]

    def fail(self, name: str, *errors: Exception) -> None:
        """The next calls of a method raise these."""
        self._failures[name] = list(errors)

    @property
    def capabilities(self) -> frozenset[str]:
        """Without schedules: those go past the store's methods, so they cannot be written down."""
        return self._store.capabilities - {"schedules"}

    def look_again(self) -> None:
        """Something changed that is no call."""
        with self._changed:
            self._changed.notify_all()

    def until(self, happened: Callable[[Recorder], bool]) -> None:
        """Wait until something was called."""
        with self._changed:
            assert self._changed.wait_for(lambda: happened(self), SECONDS), "it did not happen"


class Deaf(Recorder):
    """A store whose notifies are lost."""

    def subscribe(self, topics: Iterable[str], early: Iterable[str] = ()) -> Subscription:
        return self._store.subscribe(["nothing"])


@contextmanager
def serving(service: Service, store: Recorder | None = None) -> Iterator[threading.Thread]:
    """The service at work in a thread; stopped, joined and asked for its error at the end."""
    errors: list[BaseException] = []

    def work() -> None:
        try:
            service.start()
        except BaseException as error:
            errors.append(error)
            if store is not None:
                store.look_again()

    thread = threading.Thread(target=work, name="service")
    thread.start()
    try:
        if store is not None:
            store.until(lambda s: "running" in s.states() or bool(errors))
        yield thread
    finally:
        while thread.is_alive():  # a stop before the start would be lost
            service.stop()
            thread.join(0.05)
    if errors:
        raise errors[0]
