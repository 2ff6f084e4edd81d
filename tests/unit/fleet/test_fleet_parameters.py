"""Parameters: checked, and put where no shell sees them."""

from __future__ import annotations

from typing import Any

import pytest
from support.fleet_records import command, run, workflow

from afl.fleet.workflow import (
    Parameter,
    ParameterKind,
    ParameterValue,
    Subprocess,
    Task,
    Workflow,
    bind,
    render,
    rendered,
)
from afl.kernel.errors import InputError

FLOW = Workflow(
    "w",
    "W",
    {"a": Task("A", Subprocess("true"))},
    params={
        "table": Parameter(),
        "limit": Parameter(ParameterKind.INTEGER, 10),
        "ratio": Parameter(ParameterKind.NUMBER, 0.5),
        "dry": Parameter(ParameterKind.BOOLEAN, False),
        "mode": Parameter(default="fast", choices=("fast", "slow")),
    },
)


def test_defaults_stand_in_and_text_is_read_as_what_the_parameter_is() -> None:
    assert bind(FLOW, {"table": "t"}) == {
        "table": "t",
        "limit": 10,
        "ratio": 0.5,
        "dry": False,
        "mode": "fast",
    }
    given = {"table": "t", "limit": "-3", "ratio": "1e3", "dry": "True", "mode": "slow"}
    assert bind(FLOW, given) == {"table": "t", "limit": -3, "ratio": 1000.0, "dry": True, "mode": "slow"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "workflow 'w' needs the parameter 'table', a text"),
        ({"tabel": "t"}, "workflow 'w' has no parameter 'tabel'; did you mean 'table'?"),
        ({"table": 3}, "parameter 'table' of workflow 'w' is 3; expected a text"),
        ({"table": "a\0b"}, "expected a text"),
        ({"table": "t", "limit": 1.5}, "parameter 'limit' of workflow 'w' is 1.5; expected a whole number"),
        ({"table": "t", "limit": True}, "is True; expected a whole number"),
        ({"table": "t", "limit": "ten"}, "is 'ten'; expected a whole number"),
        ({"table": "t", "ratio": "nan"}, "is 'nan'; expected a finite number"),
        ({"table": "t", "ratio": [1]}, "is [1]; expected a finite number"),
        ({"table": "t", "dry": "yes"}, "is 'yes'; expected true or false"),
        ({"table": "t", "mode": "medium"}, "is 'medium'; expected one of 'fast', 'slow'"),
    ],
)
def test_what_does_not_fit_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        bind(FLOW, given)
    assert said in str(caught.value)


def test_values_are_put_in_once_and_as_programs_read_them() -> None:
    values: dict[str, ParameterValue] = {"a": "{{ params.b }}", "b": "x", "n": 3, "yes": True}
    assert render("[{{ params.a }}|{{params.n}}|{{ params.yes }}]", values) == "[{{ params.b }}|3|true]"
    task = rendered(Task("A", Subprocess("x", ("{{ params.n }}",)), env={"V": "{{ params.b }}"}), values)
    assert (task.config, task.env) == (Subprocess("x", ("3",)), {"V": "x"})


def test_a_parameter_stays_one_argument_whatever_it_holds() -> None:
    nasty = "$(id); `id` && \"quoted\" 'too' \n *"
    flow = Workflow(
        "w",
        "W",
        {
            "a": Task("A", Subprocess("printf", ("%s|", "{{ params.x }}", "end"))),
            "b": Task("B", Subprocess("printenv", ("X",)), depends=("a",), env={"X": "{{ params.x }}"}),
        },
        params={"x": Parameter()},
    )
    assert "\n".join(run(flow, params={"x": nasty}).lines()) == f"{nasty}|end|\n{nasty}"


def test_a_program_is_told_which_attempt_it_is() -> None:
    report = run(
        workflow(t=command("sh", "-c", 'echo "$AFL_RUN_ID $AFL_TASK_ID $AFL_TASK_ATTEMPT $AFL_WORKFLOW_ID"'))
    )
    assert report.lines() == ["run t 1 test.flow"]
