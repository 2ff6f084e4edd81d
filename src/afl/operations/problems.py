"""Errors as programs see them: one shape, a status of HTTP, and back again into the same error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from afl.kernel.error_text import error_text
from afl.kernel.errors import AgentFlowError, InputError, PayloadError
from afl.language.diagnostics import CompileError, Diagnostic
from afl.operations import serialization
from afl.operations.people.forms import FormError
from afl.operations.run.run_store import UnknownRun
from afl.runtime.entities import RunDefinition


@dataclass(frozen=True, slots=True)
class Problem:
    """What went wrong: a stable `code`, a `message` and a `hint` for people, `details` for programs."""

    code: str
    message: str
    hint: str = ""
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The shape of every error response."""

    error: Problem


class RequestError(
    InputError, hint="The table of docs/http-api.md and /api/v1/openapi.json say what is expected."
):
    """A request that cannot be read: a parameter is missing, unknown or of the wrong kind."""


class RequestTooLarge(PayloadError, code="too-large", status=413):
    """A request is larger than the server, or a proxy in front of it, takes."""


class ServerDefect(AgentFlowError, code="defect", hint="Look at the log of the server, and report it."):
    """The server failed in a way that nobody foresaw."""


class RemoteError(AgentFlowError, hint="Look at the text; the server said it."):
    """A server's error of a kind that is not known here; `problem` is what it said."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem
        self.code = problem.code


class ServerAway(
    AgentFlowError, hint="Start it with `afl dashboard`, or correct --server (AFL_SERVER).", status=503
):
    """No server answers at the address, it is just stopping, or what answers is none of AgentFlow."""


class ServerDiffers(AgentFlowError, hint="Use the same version of AgentFlow on both sides."):
    """A server of another version, which does not know what it was asked or answers what is not understood."""


def problem_of(error: AgentFlowError) -> Problem:
    """An error in that shape; texts are cut, and passwords in addresses are not shown."""
    return Problem(type(error).code, error_text(error), error.hint, _details(error))


def error_of(problem: Problem) -> AgentFlowError:
    """The error that a problem was."""
    kind = next((each for each in _kinds(AgentFlowError) if each.code == problem.code), None)
    if kind is UnknownRun:
        return _unknown_run(problem)
    if kind is CompileError:
        findings = [serialization.convert(each, Diagnostic) for each in problem.details.get("findings", ())]
        return CompileError(findings, {}, problem.message)
    if kind is FormError:
        return FormError(problem.message, problem.details.get("problems"))
    if kind is None or not _is_plain(kind):
        return RemoteError(problem)
    return kind(problem.message)


def _details(error: AgentFlowError) -> dict[str, Any]:
    if isinstance(error, CompileError):
        return {"findings": [_finding(each) for each in error.diagnostics]}
    if isinstance(error, FormError):
        return {"problems": {name: error_text(text) for name, text in error.problems.items()}}
    if isinstance(error, UnknownRun):
        return {"name": error.name, "latest": [_known(run) for run in error.latest]}
    return {}


def _finding(found: Diagnostic) -> Any:
    return serialization.plain(replace(found, message=error_text(found.message)))


def _known(run: RunDefinition) -> dict[str, Any]:
    return {
        "run": run.workflow_id,
        "workflow": run.workflow_name,
        "state": run.state,
        "created": run.created,
    }


def _unknown_run(problem: Problem) -> UnknownRun:
    latest = [
        RunDefinition(each["run"], each["workflow"], "", each["state"], created=each["created"])
        for each in problem.details["latest"]
    ]
    return UnknownRun(problem.details["name"], latest)


def _kinds(kind: type[AgentFlowError]) -> Iterator[type[AgentFlowError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)


def _is_plain(kind: type[AgentFlowError]) -> bool:
    """Whether its text is all it is made of."""
    own = [each for each in kind.__mro__ if each.__module__.startswith("afl.")]
    return not any("__init__" in vars(each) or "__str__" in vars(each) for each in own)
