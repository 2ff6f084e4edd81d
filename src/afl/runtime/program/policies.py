"""Policies of a step: what the workflow says, by facets of the namespace `sys`, about how its task is handled.

A policy at the call counts before one of the same name in the facet's own signature. A bridge (`Agent`, `Fleet`,
`Message`, `Human`, `Signal`) says where the task is done; one at the call counts before any of the signature. So does a
limit (`Concurrency`, `Rate`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from afl.kernel.backoff import Backoff
from afl.kernel.bounds import A_NAME, A_RUN_ID, is_name, is_run_id
from afl.kernel.errors import CorruptRow
from afl.runtime.entities import RATE_KEY, ParentClose, TaskDefinition, TaskHold
from afl.runtime.errors import StepFailure
from afl.runtime.program.block import MixinUse, StatementDefinition
from afl.runtime.program.declaration import Declaration, constant_context
from afl.runtime.program.expression import EvaluationContext

NAMESPACE = "sys."
BRIDGES = {
    "Agent": "agent",
    "Fleet": "fleet",
    "Message": "message",
    "Human": "human",
    "Signal": "signal",
}  # mixin -> kind of `via`

LIMITS = frozenset({"Concurrency", "Rate"})

_RETRY: dict[str, Any] = {"backoff": 1000, "factor": 2.0, "max": 300_000, "on": [], "nonRetryable": []}
_MOST = (
    10 * 366 * 86_400_000
)  # ten years in milliseconds, which every clock can add; plenty for the other numbers too
MOST_RETRY_AFTER = 86_400.0  # seconds: what an error asks for comes from outside
_UNITS = {"ms": 1, "seconds": 1000, "minutes": 60_000, "hours": 3_600_000}


@dataclass(slots=True)
class Policies:
    """What is laid down for one task."""

    given: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def apply(self, task: TaskDefinition) -> None:
        """Write the policies into a new task; StepFailure for one that makes no sense."""
        for name, values in self.given.items():
            known = _POLICIES.get(name)
            if known is not None:
                known(task, values)
        if task.per_minute and task.via:
            raise _bad(
                "Rate", f"it counts tasks that workers begin, and this one is done elsewhere ({task.via})"
            )


def policies_of(
    statement: StatementDefinition | None,
    called: Declaration,
    params: Mapping[str, Any],
    evaluation: Callable[[], EvaluationContext],
) -> Policies | None:
    """The policies of a call; None if there are none, as mostly."""
    own = [use for use in called.mixins if use.target.startswith(NAMESPACE)]
    here = [use for use in statement.mixins if use.target.startswith(NAMESPACE)] if statement else []
    if not own and not here:
        return None
    given: dict[str, Mapping[str, Any]] = {_name(use): _values(use, constant_context(params)) for use in own}
    for group in (BRIDGES, LIMITS):
        if any(_name(use) in group for use in here):
            given = {name: values for name, values in given.items() if name not in group}
    given |= {_name(use): _values(use, evaluation()) for use in here}
    return Policies(given)


def _name(use: MixinUse) -> str:
    return use.target.removeprefix(NAMESPACE)


def _values(use: MixinUse, context: EvaluationContext) -> dict[str, Any]:
    return {name: evaluate(context) for name, evaluate in use.bindings}


@dataclass(frozen=True, slots=True)
class ChildRun:
    """How a workflow is run as a child: an empty id is a new one, an empty task list that of the parent."""

    id: str = ""
    on_parent_close: str = ParentClose.CANCEL
    task_list: str = ""
    wait: bool = True


def child_run_of(use: MixinUse, context: EvaluationContext) -> ChildRun:
    """What the mixin `Run` of a call says; StepFailure if that makes no sense."""
    given = _values(use, context)
    closing, wait = given.get("onParentClose", ParentClose.CANCEL), given.get("wait", True)
    if closing not in (ParentClose.CANCEL, ParentClose.DETACH):
        raise _bad("Run", f"onParentClose is {closing!r}; expected 'cancel' or 'detach'")
    if not isinstance(wait, bool):
        raise _bad("Run", f"wait is {wait!r}; expected true or false")
    run_id, task_list = given.get("id", ""), given.get("taskList", "")
    if not isinstance(run_id, str) or (run_id and not is_run_id(run_id)):
        raise _bad("Run", f"the id is {run_id!r:.80}; expected {A_RUN_ID}")
    return ChildRun(run_id, closing, _word("Run", "taskList", task_list) if task_list else "", wait)


def child_policies(policies: Policies | None, task: TaskDefinition) -> None:
    """Write into the task of a child run what applies to it: how long it may take."""
    if policies is not None and "Timeout" in policies.given:
        _timeout(task, policies.given["Timeout"])


def retry_delay(
    task: TaskDefinition, error_type: str, bases: Iterable[str] = (), retry_after: float = 0
) -> int | None:
    """After how many milliseconds a task that failed is tried again; None if it is not.

    `bases` are the names of the classes that the error derives from: a policy that lists one of them is meant as well.
    The next attempt is not sooner than `retry_after`, in seconds, which the error itself may ask for.
    """
    kinds = {error_type, *bases}
    policy = task.retry
    if error_type == CorruptRow.__name__:
        return None  # nothing that changes by itself
    if policy is None or task.failures + 1 >= policy["attempts"]:
        return None
    if policy["on"] and kinds.isdisjoint(policy["on"]):
        return None
    if not kinds.isdisjoint(policy.get("nonRetryable", ())):
        return None
    backoff = Backoff(policy["backoff"], policy["factor"], policy["max"])
    return max(round(backoff.delay(task.failures + 1)), round(min(retry_after, MOST_RETRY_AFTER) * 1000))


def _retry(task: TaskDefinition, values: Mapping[str, Any]) -> None:
    policy = {**_RETRY, **values}
    policy.setdefault("attempts", policy.pop("maxAttempts", None))
    _number("Retry", "attempts", policy.get("attempts"), least=1)
    _number("Retry", "backoff", policy["backoff"], least=0)
    _number("Retry", "factor", policy["factor"], least=1)
    _number("Retry", "max", policy["max"], least=0)
    for listed in ("on", "nonRetryable"):
        policy[listed] = policy[listed] or []
        if not isinstance(policy[listed], list) or not all(isinstance(name, str) for name in policy[listed]):
            raise _bad("Retry", f"{listed} is {policy[listed]!r}; expected a list of names of error types")
    task.retry = policy


def _timeout(task: TaskDefinition, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        _number("Timeout", name, value, least=0)
    total = sum(_UNITS[name] * value for name, value in values.items() if name in _UNITS)
    _number("Timeout", "its sum in milliseconds", total, least=1)
    task.timeout_ms = round(total)


def _priority(task: TaskDefinition, values: Mapping[str, Any]) -> None:
    _number("Priority", "n", values["n"], least=-_MOST)
    task.priority = round(values["n"])


def _task_list(task: TaskDefinition, values: Mapping[str, Any]) -> None:
    task.task_list_name = _word("TaskList", "name", values["name"])


def _concurrency(task: TaskDefinition, values: Mapping[str, Any]) -> None:
    _number("Concurrency", "limit", values.get("limit"), least=1)
    task.concurrency_key = _word("Concurrency", "key", values["key"])
    task.concurrency_limit = round(values["limit"])
    if task.concurrency_key.startswith(RATE_KEY):
        raise _bad(
            "Concurrency", f"the key is {task.concurrency_key!r}; {RATE_KEY!r} begins the keys of rates"
        )


def _rate(task: TaskDefinition, values: Mapping[str, Any]) -> None:
    _number("Rate", "perMinute", values.get("perMinute"), least=1)
    task.concurrency_key = RATE_KEY + _word("Rate", "key", values["key"])
    task.concurrency_limit = -int(values["perMinute"])


def _agent(task: TaskDefinition, values: Mapping[str, Any]) -> None:
    _bridge(task, "Agent", values)


def _fleet(task: TaskDefinition, values: Mapping[str, Any]) -> None:
    _bridge(task, "Fleet", values)


def _message(task: TaskDefinition, values: Mapping[str, Any]) -> None:
    _number("Message", "priority", values.get("priority", 0), least=0)
    _bridge(task, "Message", values)


def _human(task: TaskDefinition, values: Mapping[str, Any]) -> None:
    minutes, to = values.get("escalate_minutes", 0), values.get("escalate_to", "")
    _number("Human", "escalate_minutes", minutes, least=0)
    if bool(to) != bool(minutes):
        raise _bad(
            "Human", "escalate_to and escalate_minutes belong together: who is asked next, and after how long"
        )
    _bridge(task, "Human", values)
    task.patience_ms = round(minutes * _UNITS["minutes"])


def _signal(task: TaskDefinition, values: Mapping[str, Any]) -> None:
    _bridge(task, "Signal", values)


def _bridge(task: TaskDefinition, bridge: str, values: Mapping[str, Any]) -> None:
    """The task is done elsewhere; what the mixin says besides goes along."""
    name = _word(bridge, "name", values.get("name"))
    task.via = f"{BRIDGES[bridge]}:{name}"
    task.bridge = {each: value for each, value in values.items() if each != "name" and value not in ("", 0)}
    task.hold = TaskHold.ELSEWHERE


def _number(policy: str, name: str, value: Any, *, least: int) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not value >= least:
        raise _bad(policy, f"{name} is {value!r}; expected at least {least}")
    if value > _MOST:
        raise _bad(policy, f"{name} is {value!r}; expected at most {_MOST}")


def _word(policy: str, name: str, value: Any) -> str:
    if value is not None and not isinstance(value, str):
        raise _bad(policy, f"the {name} is {value!r}; expected a text")
    if not value:
        raise _bad(policy, f"the {name} is empty")
    if not is_name(value):
        raise _bad(policy, f"the {name} is {value[:80]!r}; expected {A_NAME}")
    return value


def _bad(policy: str, reason: str) -> StepFailure:
    return StepFailure(f"{policy}: {reason}", "BadPolicy")


_POLICIES: dict[str, Callable[[TaskDefinition, Mapping[str, Any]], None]] = {
    "Retry": _retry,
    "Timeout": _timeout,
    "Priority": _priority,
    "TaskList": _task_list,
    "Concurrency": _concurrency,
    "Rate": _rate,
    "Agent": _agent,
    "Fleet": _fleet,
    "Message": _message,
    "Human": _human,
    "Signal": _signal,
}
