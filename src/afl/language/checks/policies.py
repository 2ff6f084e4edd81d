"""Policies: whether there is a task that they could apply to, and whether their constants make sense."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from afl.kernel.bounds import A_NAME, is_name
from afl.language.ast.declarations import ImplicitDecl
from afl.language.ast.expressions import CallExpr, Expression, Literal, MixinCall, MixinSig, UnaryExpr
from afl.language.checks.context import Context
from afl.language.names import EVENT_FACET, FACETS, SCHEMA, WORKFLOW, Symbol
from afl.language.timers import MAX_SLEEP_MS, time_problem

_LEAST = {
    "Retry": {"attempts": 1, "maxAttempts": 1, "backoff": 0, "factor": 1, "max": 0},
    "Timeout": {"ms": 0, "seconds": 0, "minutes": 0, "hours": 0},
    "Concurrency": {"limit": 1},
    "Rate": {"perMinute": 1},
    "Message": {"priority": 0},
    "Human": {"escalate_minutes": 0},
}
_AFTER = "After"  # the one that any call may have
BRIDGES = ("Agent", "Fleet", "Message", "Human", "Signal")
CHILD_RUN = "Run"
_OF_A_CHILD_RUN = (CHILD_RUN, "Timeout")
_CLOSING = ("cancel", "detach")
_WORDS = {
    "TaskList": ("name",),
    "Concurrency": ("key",),
    "Rate": ("key",),
    **dict.fromkeys(BRIDGES, ("name",)),
}

_EXCLUSIVE = (
    (
        "POLICY_BRIDGES",
        BRIDGES,
        "both say who does the work; it is done in one place",
        "keep one, and make another step for the other",
    ),
    (
        "POLICY_LIMITS",
        ("Concurrency", "Rate"),
        "both limit when the task begins; there is one limit",
        "keep one; the 'limit' of a foreach says how many of its elements are active at a time",
    ),
    *(
        (
            "POLICY_LIMITS",
            ("Rate", bridge),
            "do not go together: a rate counts tasks that workers begin, and this one is done elsewhere",
            "keep one",
        )
        for bridge in BRIDGES
    ),
)


class Policies:
    """Checks the mixins of namespace `sys`."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def child_run(self, call: CallExpr, namespace: str) -> MixinCall | None:
        """The mixin by which the workflow that is called is a run of its own."""
        for mixin in call.mixins:
            symbol = self._context.names.symbol(mixin.name, namespace, FACETS)
            if symbol is not None and symbol.is_policy and symbol.name == CHILD_RUN:
                return mixin
        return None

    def is_awaited(self, call: CallExpr, namespace: str) -> bool:
        """Whether the step of a call has the returns of what it calls."""
        mixin = self.child_run(call, namespace)
        waits = (arg.value for arg in mixin.args if arg.name == "wait") if mixin is not None else ()
        return all(not isinstance(value, Literal) or value.value is not False for value in waits)

    def check_effect(
        self, mixin: MixinSig | MixinCall, policy: Symbol, called: Symbol | None, *, as_run: bool
    ) -> None:
        """Only an event facet, and a workflow that is a run of its own, has a task."""
        if policy.name == _AFTER:
            if isinstance(mixin, MixinSig):
                message = f"'{mixin.name}' names a step, and a signature has none"
                self._no_effect(mixin, message, "write it after a call: 'b = B() with After(a)'")
            return
        if called is None or called.kind == SCHEMA:  # a schema takes no mixin at all
            return
        if policy.name == CHILD_RUN:
            self._check_child_run(mixin, called)
        elif called.is_built_in:
            message = f"'{mixin.name}' has no effect on '{called.full_name}', which the runtime does itself"
            self._no_effect(mixin, message, f"leave out 'with {policy.name}(...)'")
        elif called.kind != EVENT_FACET and not (as_run and policy.name in _OF_A_CHILD_RUN):
            message = (
                f"'{mixin.name}' has no effect on '{called.name}', which is a {called.kind} and has no task"
            )
            self._no_effect(
                mixin,
                message,
                f"move 'with {policy.name}(...)' to the call or the signature of an event facet",
            )

    def _check_child_run(self, mixin: MixinSig | MixinCall, called: Symbol) -> None:
        if called.kind != WORKFLOW:
            message = f"'{mixin.name}' makes a workflow a run of its own; '{called.name}' is a {called.kind}"
            fix = f"make '{called.name}' a workflow, or leave out 'with {CHILD_RUN}(...)'"
            self._context.error(mixin, "RUN_NEEDS_WORKFLOW", message, fix)
        elif isinstance(mixin, MixinSig):
            message = f"'{mixin.name}' belongs to a call of workflow '{called.name}', not to its signature"
            fix = f"write it after the call: '{called.name}(...) with {CHILD_RUN}(...)'"
            self._context.error(mixin, "RUN_NEEDS_WORKFLOW", message, fix)

    def check_exclusive(self, mixins: Sequence[MixinSig | MixinCall], namespace: str) -> None:
        """Of policies that exclude each other there is at most one, and of each policy one; `After` adds up."""
        used: list[tuple[str, MixinSig | MixinCall]] = []
        for mixin in mixins:
            symbol = self._context.names.symbol(mixin.name, namespace, FACETS)
            if symbol is None or not symbol.is_policy:
                continue
            for rule, group, why, fix in _EXCLUSIVE:
                first = next((each for name, each in reversed(used) if name in group), None)
                if symbol.name in group and first is not None:
                    message = f"'{mixin.name}' and '{first.name}' {why}"
                    self._context.error(mixin, rule, message, fix)
                    break
            else:
                if symbol.name != _AFTER and any(name == symbol.name for name, _ in used):
                    message = f"'{mixin.name}' stands here twice, and only the last one would count"
                    self._context.error(mixin, "POLICY_DUPLICATE", message, "leave one of them out")
            used.append((symbol.name, mixin))

    def check_implicit(self, implicit: ImplicitDecl, mixin: MixinCall) -> None:
        """An implicit supplies arguments, and nothing else."""
        message = f"'{mixin.name}' has no effect on implicit '{implicit.name}', which supplies arguments only"
        self._no_effect(mixin, message, "write it after the call, or in the signature of the event facet")

    def _no_effect(self, mixin: MixinSig | MixinCall, message: str, fix: str) -> None:
        self._context.error(mixin, "POLICY_NO_EFFECT", message, fix)

    def check_built_in(self, call: CallExpr, called: Symbol) -> None:
        """Constants of a timer."""
        value = next((arg.value for arg in call.args), None)
        if called.name == "Sleep":
            ms = constant_number(value)
            if ms is not None and not 0 <= ms <= MAX_SLEEP_MS:
                message = f"'ms' of '{called.full_name}' is {ms}; expected 0 to {MAX_SLEEP_MS} (100 years)"
                self._context.error(call, "TIMER_VALUE", message)
        elif called.name == "Until" and isinstance(value, Literal) and value.kind == "string":
            problem = time_problem(value.value)
            if problem:
                self._context.error(call, "TIMER_VALUE", f"'time' of '{called.full_name}': {problem}")

    def check_values(self, mixin: MixinSig | MixinCall, policy: Symbol) -> None:
        """Constants out of range; what is computed is checked when the step runs."""
        first = next((param.name for param in policy.params), "")
        given = {arg.name or first: arg.value for arg in mixin.args}
        for name, least in _LEAST.get(policy.name, {}).items():
            value = constant_number(given.get(name))
            if value is not None and value < least:
                message = f"'{name}' of policy '{policy.name}' is {value}; expected at least {least}"
                self._context.error(given[name], "POLICY_VALUE", message, _meaning(policy.name, name))
        for name in _WORDS.get(policy.name, ()):
            word = given.get(name)
            if isinstance(word, Literal) and word.value == "":
                message = f"'{name}' of policy '{policy.name}' is empty"
                self._context.error(word, "POLICY_VALUE", message, "give it a name")
            elif policy.name == "Signal" and isinstance(word, Literal) and not is_name(str(word.value)):
                message = f"'{name}' of policy 'Signal' is not a valid name for a signal"
                self._context.error(word, "POLICY_VALUE", message, f"expected {A_NAME}")
        if policy.name == "Retry" and not given.keys() & {"attempts", "maxAttempts"}:
            message = "Missing argument 'attempts' for facet 'Retry'"
            self._context.error(mixin, "ARG_MISSING", message, "it is of type Long")
        if policy.name == "Human" and ("escalate_to" in given) != ("escalate_minutes" in given):
            message = "'escalate_to' and 'escalate_minutes' of policy 'Human' belong together"
            self._context.error(
                mixin, "POLICY_VALUE", message, "say who is asked instead, and after how many minutes"
            )
        if policy.name == CHILD_RUN:
            self._check_run_values(given)
        if policy.name == "Timeout" and all(constant_number(value) == 0 for value in given.values()):
            message = "the parts of policy 'Timeout' add up to nothing; expected at least 1 millisecond"
            self._context.error(mixin, "POLICY_VALUE", message, "for example 'with Timeout(minutes = 5)'")

    def _check_run_values(self, given: Mapping[str, Expression]) -> None:
        closing, wait = given.get("onParentClose"), given.get("wait")
        if isinstance(closing, Literal) and closing.value not in _CLOSING:
            message = (
                f"'onParentClose' of policy '{CHILD_RUN}' is {closing.value!r}; expected 'cancel' or 'detach'"
            )
            fix = "cancel: the child ends with this run; detach: it goes on"
            self._context.error(closing, "POLICY_VALUE", message, fix)
        if wait is not None and not (isinstance(wait, Literal) and isinstance(wait.value, bool)):
            message = f"'wait' of policy '{CHILD_RUN}' is computed; expected true or false"
            fix = "whether the step has returns is known when the program is compiled; use a 'when' for both"
            self._context.error(wait, "POLICY_VALUE", message, fix)


def _meaning(policy: str, name: str) -> str | None:
    if (policy, name) == ("Retry", "attempts"):
        return "it counts every run of the step: 1 is no retry, 2 is one"
    if (policy, name) == ("Retry", "factor"):
        return "each wait is so many times as long as the one before"
    return None


def constant_number(node: Expression | None) -> int | float | None:
    """The value of a number that stands in the text."""
    if isinstance(node, UnaryExpr) and node.operator == "-":
        value = constant_number(node.operand)
        return -value if value is not None else None
    if isinstance(node, Literal) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return node.value
    return None
