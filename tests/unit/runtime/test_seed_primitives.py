"""Every result of a task passes through the evaluator's own `continue_step` or `fail_step`, whoever drives the run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest
from support.agents import SECONDS, begin, double, ended, run_of
from support.eventually import eventually

from afl.runtime.agent_poller import AgentPoller, AgentPollerConfig
from afl.runtime.entities import RunnerState
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore
from afl.runtime.runner import RunnerConfig, RunnerService
from afl.runtime.task_handlers.handler import Callback, Handlers
from afl.runtime.types import StepId


class Counting(Evaluator):
    """A subclass that overrides only `continue_step` and `fail_step`, with the signatures of the specification."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.calls: list[tuple[str, Any]] = []

    def continue_step(self, step_id: StepId, result: dict[str, Any] | None = None) -> bool:  # type: ignore[override]
        self.calls.append((step_id, result))
        return super().continue_step(step_id, result)

    def fail_step(self, step_id: StepId, error_message: str) -> bool:  # type: ignore[override]
        self.calls.append((step_id, error_message))
        return super().fail_step(step_id, error_message)


class Wrapper:
    """Delegates to an evaluator."""

    def __init__(self, store: MemoryStore) -> None:
        self._inner = Evaluator(store)
        self.calls: list[tuple[str, Any]] = []

    def continue_step(self, step_id: StepId, result: dict[str, Any] | None = None) -> bool:
        self.calls.append((step_id, result))
        return self._inner.continue_step(step_id, result)

    def fail_step(self, step_id: StepId, error_message: str) -> bool:
        self.calls.append((step_id, error_message))
        return self._inner.fail_step(step_id, error_message)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


Kind = Callable[[MemoryStore], Any]
Face = Callable[[MemoryStore, Any], Callable[[], object]]


def refuse(payload: dict[str, Any]) -> dict[str, Any]:
    if payload["n"] == 2:
        raise ValueError("two is refused")
    return double(payload)


def poller(store: MemoryStore, evaluator: Any) -> AgentPoller:
    made = AgentPoller(store, cast(Evaluator, evaluator), AgentPollerConfig(poll_interval_ms=20))
    made.register("Double", refuse)
    return made


def runner(store: MemoryStore, evaluator: Any) -> RunnerService:
    config = RunnerConfig(poll_interval_ms=20, http=False)
    return RunnerService(store, evaluator, config, handlers=Handlers([Callback("Double", refuse)]))


def served(make: Callable[[MemoryStore, Any], AgentPoller | RunnerService]) -> Face:
    def face(store: MemoryStore, evaluator: Any) -> Callable[[], object]:
        service = make(store, evaluator)

        def work() -> None:
            thread = threading.Thread(target=service.start)
            thread.start()
            eventually(lambda: all(run_of(store, run.workflow_id).is_over for run in store.get_runs()))
            service.stop()
            thread.join(SECONDS)

        return work

    return face


FACES: dict[str, Face] = {
    "AgentPoller.poll_once": lambda store, evaluator: poller(store, evaluator).poll_once,
    "RunnerService.run_once": lambda store, evaluator: runner(store, evaluator).run_once,
    "AgentPoller.start": served(poller),
    "RunnerService.start": served(runner),
}


@pytest.mark.parametrize("kind", [Counting, Wrapper])
@pytest.mark.parametrize("face", FACES)
def test_every_task_is_continued_or_failed_once(store: MemoryStore, face: str, kind: Kind) -> None:
    runs = [begin(store, inputs={"n": n}) for n in (1, 2, 3)]
    evaluator = kind(store)
    FACES[face](store, evaluator)()
    assert sorted(evaluator.calls, key=str) == sorted(
        [
            (f"{runs[0]}/0/d", {"m": 2}),
            (f"{runs[1]}/0/d", "two is refused"),
            (f"{runs[2]}/0/d", {"m": 6}),
        ],
        key=str,
    )
    assert [ended(store, run).state for run in runs] == [
        RunnerState.COMPLETED,
        RunnerState.FAILED,
        RunnerState.COMPLETED,
    ]
    assert (run_of(store, runs[1]).error or {})["error_type"] == "ValueError"


def test_an_evaluator_that_refuses_a_result_fails_its_step(store: MemoryStore) -> None:
    class Strict(Evaluator):
        def continue_step(self, step_id: StepId, result: dict[str, Any] | None = None) -> bool:  # type: ignore[override]
            raise PermissionError("not this one")

    run = begin(store)
    made = AgentPoller(store, Strict(store))
    made.register("Double", double)
    assert made.poll_once() == 1
    assert ended(store, run).state == RunnerState.FAILED
    assert (run_of(store, run).error or {})["error_type"] == "PermissionError"
