"""The model and the engine on workflows whose result can be worked out by hand."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from support.driving import drive, drive_locally
from support.judging import TIGHT, Trial, check
from support.telling_workflows import TELLING

from afl.runtime.evaluation.pace import Pace
from afl.runtime.memory_store import MemoryStore

OUTPUTS: dict[str, dict[str, Any]] = {
    "chain": {"x": 30},
    "foreach": {"all": [11, 1, 12, 2, 13, 3], "x": 13},
    "timers and published values": {"all": [4, 2, 2], "x": 2},
    "foreach over a map, in a foreach": {"all": [6, 33, 2, 11, 4, 22], "t": "two", "x": 20},
    "foreach over an answer": {"x": 3},
    "repeat": {"x": 3, "t": ":1236:", "all": [3, 6]},
    "repeat, and what it leaves": {"x": 13, "all": list(range(1, 14)), "t": "xxx"},
    "when": {"all": [5, 10], "t": "small"},
    "catch": {"all": [-3, -3, 13, -1, -1, 11], "t": "AgentError:boom"},
    "catch when, in an inline body": {"t": "AgentError", "all": [5]},
    "mixins": {"x": 31622, "all": [312, 9, 14]},
    "implicits, defaults and schemas": {"x": 17, "all": [7, 7]},
    "several blocks": {"all": [1, 2, 3], "x": 3},
    "a workflow as a step, calling itself": {"x": 6, "all": [1, 2, 3, 1]},
    "inline bodies that wait for steps around them": {"x": 15, "all": [16]},
    "yields past a closed foreach": {"all": [8, 6, 7], "x": 15},
    "foreach, some at a time": {"all": [6, 7, 8, 9, 10], "x": 10},
    "failures in a foreach, collected": {
        "all": [1, 2, 3, 4, 5, 6],
        "lost": [
            {"error_type": "AgentError", "message": "boom 2", "index": 0, "element": 0, "step": "[0].a"}
        ],
    },
    "collected in a foreach over a map, in a foreach": {
        "all": [4, 4, 5, 6, 4, 1, 1, 2, 3, 1, 6, 6, 8, 6],
        "t": "[2].b[1].sys",
        "lost": [],
    },
    "collected beside a block that fails, and is caught": {
        "all": [3, 2],
        "lost": [
            {"error_type": "AssertionError", "message": "", "index": 1, "element": 1, "step": "[1].a.sys"}
        ],
        "t": "AgentError",
    },
    "signals": {"all": [1, 2], "t": "heard", "x": 0},
    "signals that do not come in time": {
        "lost": [
            {
                "error_type": "Timeout",
                "message": "did not come within",
                "index": number,
                "element": number + 1,
                "step": f"[{number}].c",
            }
            for number in (0, 1)
        ],
        "t": "Timeout",
    },
    "child runs": {"all": [3, 1], "x": 1, "t": "RunExists"},
    "child runs that nobody waits for": {"all": [2]},
    "child runs that take too long": {"t": "Timeout", "x": 2},
    "limits": {"all": [3, 1, 2]},
    "expressions": {
        "x": 11,
        "t": "3+2+111 3+2+111 2026-03-01",
        "all": [3, 1, 2, -4, 12],
        "lost": [{"error_type": "EvaluationError", "message": "", "index": 1, "element": 0, "step": "[1].b"}],
    },
}
FAILURES = {
    "child runs that fail": ("d", 4),
    "a failure that others outlive": ("bad", 5),
    "failures in a repeat": ("[0].a", 4),
    "failures in a foreach": ("[0].a", 14),
}


def test_every_workflow_has_an_expectation() -> None:
    assert set(TELLING) == {*OUTPUTS, *FAILURES}


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_model_says_what_a_reader_expects(name: str) -> None:
    verdict = Trial.of(TELLING[name]).verdict
    assert verdict.failure is None
    assert {key: value for key, value in verdict.outputs.items() if key in OUTPUTS[name]} == OUTPUTS[name]


@pytest.mark.parametrize("name", FAILURES)
def test_the_model_names_the_first_failure_and_lets_the_rest_finish(name: str) -> None:
    verdict = Trial.of(TELLING[name]).verdict
    assert verdict.failure is not None
    assert (verdict.failure.step, len(verdict.work)) == FAILURES[name]


@pytest.mark.parametrize("pace", [Pace(), TIGHT], ids=["usual", "tight"])
@pytest.mark.parametrize("how", [drive, drive_locally])
@pytest.mark.parametrize("name", TELLING)
def test_the_engine_agrees(name: str, how: Any, pace: Pace) -> None:
    trial, store = Trial.of(TELLING[name]), MemoryStore()
    result = how(trial, store, Random(1), pace)
    check(trial, store, result)
    assert len(store.get_tasks_by_workflow(result.workflow_id)) == len(trial.verdict.work)
    store.close()
