"""Parameters of a run: checked against what the workflow declares, and put into arguments and environment.

`{{ params.name }}` in an argument or in a variable's value becomes the value, once: what a value contains is never
read again. An argument stays one argument whatever the value is, and no shell sees it.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from afl.fleet.problems import suggestion
from afl.fleet.workflow import Parameter, ParameterKind, ParameterValue, Ray, Subprocess, Task, Workflow
from afl.kernel.errors import InputError

PLACEHOLDER = re.compile(r"\{\{\s*params\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_ARTICLES = {
    ParameterKind.STRING: "a text",
    ParameterKind.INTEGER: "a whole number",
    ParameterKind.NUMBER: "a finite number",
    ParameterKind.BOOLEAN: "true or false",
}


def bind(workflow: Workflow, given: Mapping[str, Any]) -> dict[str, ParameterValue]:
    """A value for every parameter of the workflow; InputError for one that is missing, unknown or wrong.

    Text is read as what the parameter is, since a command line has nothing else: "10" is the whole number 10.
    """
    for name in given:
        if name not in workflow.params:
            known = suggestion(name, workflow.params) or "; it has no parameters"
            raise InputError(f"workflow {workflow.id!r} has no parameter {name!r}{known}")
    bound: dict[str, ParameterValue] = {}
    for name, parameter in workflow.params.items():
        value = given.get(name)
        if value is None:
            value = parameter.default
        if value is None:
            raise InputError(
                f"workflow {workflow.id!r} needs the parameter {name!r}, {_ARTICLES[parameter.kind]}"
            )
        try:
            bound[name] = checked(parameter, value)
        except InputError as error:
            raise InputError(f"parameter {name!r} of workflow {workflow.id!r} {error}") from error
    return bound


def checked(parameter: Parameter, value: Any) -> ParameterValue:
    """The value as the parameter's kind; InputError when it is not one, or none of the choices."""
    try:
        found = _READERS[parameter.kind](value)
    except (ValueError, OverflowError):
        raise InputError(f"is {value!r}; expected {_ARTICLES[parameter.kind]}") from None
    if parameter.choices and found not in parameter.choices:
        raise InputError(f"is {found!r}; expected one of {', '.join(map(repr, parameter.choices))}")
    return found


def rendered(task: Task, values: Mapping[str, ParameterValue]) -> Task:
    """The task with the values in its arguments and environment."""
    env = {name: render(text, values) for name, text in task.env.items()}
    config = task.config
    if isinstance(config, (Subprocess, Ray)):
        config = dataclasses.replace(config, args=tuple(render(text, values) for text in config.args))
    return dataclasses.replace(task, config=config, env=env)


def rendered_workflow(workflow: Workflow, values: Mapping[str, ParameterValue]) -> Workflow:
    """The workflow with the values in every task."""
    tasks = {task_id: rendered(task, values) for task_id, task in workflow.tasks.items()}
    return dataclasses.replace(workflow, tasks=tasks)


def render(text: str, values: Mapping[str, ParameterValue]) -> str:
    """The text with each placeholder replaced; one pass, so a value that looks like a placeholder stays as it is."""
    return PLACEHOLDER.sub(lambda match: shown(values[match[1]]) if match[1] in values else match[0], text)


def shown(value: ParameterValue) -> str:
    """A value as a program reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _string(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError
    return value


def _integer(value: Any) -> int:
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError
    number = value if isinstance(value, int) else float(value)
    if not math.isfinite(number):
        raise ValueError
    return number


def _boolean(value: Any) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if isinstance(value, bool):
        return value
    raise ValueError


_READERS: dict[ParameterKind, Callable[[Any], ParameterValue]] = {
    ParameterKind.STRING: _string,
    ParameterKind.INTEGER: _integer,
    ParameterKind.NUMBER: _number,
    ParameterKind.BOOLEAN: _boolean,
}
