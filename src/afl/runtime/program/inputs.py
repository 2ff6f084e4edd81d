"""The inputs of a run, checked before anything is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afl.kernel import codec
from afl.kernel.errors import InputError, PayloadError
from afl.runtime.program.declaration import constant_context
from afl.runtime.program.program import Program
from afl.runtime.program.values import misfit, unknown_name


def check_inputs(program: Program, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The run's inputs with defaults filled in; InputError names what is missing, unknown or ill-typed."""
    workflow = program.workflow
    if not workflow.ast:
        known = ", ".join(sorted(program.workflows())) or "none"
        raise InputError(f"which workflow? The program has {known}")
    if not isinstance(inputs, Mapping):  # it may come from a task that anybody wrote
        raise InputError(
            f"workflow {workflow.name}: the inputs are a map of names to values, got {inputs!r:.80}"
        )
    values = _plain(inputs)
    declared = {param.name: param for param in workflow.params}
    # A program from a source declares every input; one that was built by hand may declare none and read some.
    declares = bool(declared) or "location" in workflow.ast
    problems = [unknown_name("input", name, declared) for name in values if declares and name not in declared]
    for name, param in declared.items():
        if name in values:
            problem = misfit(values[name], param.type, program.schemas, f"input '{name}'")
            if problem:
                problems.append(problem)
        elif param.default is not None:
            values[name] = param.default(constant_context(values))
        else:
            problems.append(f"input '{name}' is missing")
    if problems:
        raise InputError(f"workflow {workflow.name}: {'; '.join(problems)}")
    return values


def _plain(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs as every handler gets them: dates, dataclasses, models and the like as the JSON that is stored."""
    try:
        values: dict[str, Any] = codec.plain_data(inputs, what="the input map")
    except PayloadError:
        for name, value in inputs.items():
            codec.plain_data(value, what=f"input '{name}'")  # says which it is
        raise
    return values
