"""What the steps of a model's run ask others for: agents, senders of signals, child runs; and what is noted of it."""

from __future__ import annotations

import json
from collections.abc import Callable

from support.model_outcome import Child, Signal, Verdict, Work
from support.model_program import Path, policy, shown
from support.model_values import Endless, Json, Problem, Scope, Step, fits, value_of

Answer = Callable[[str, Json], Json]
Run = Callable[[str, Json], Verdict]
LONGEST_MS = 100 * 366 * 86_400_000


class Outside:
    """The outside of one run, and the verdict on it. Runs that belong together have different ids."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._run_ids: set[str] = set()
        self.verdict = Verdict({}, None)

    def of_another_run(self) -> Outside:
        other = Outside(self._answer)
        other._run_ids = self._run_ids
        return other

    def ask(self, step: Step, declared: Json, name: str, call: Json, scope: Scope, path: Path) -> None:
        if name == "sys.Publish":
            self.verdict.published.setdefault(step.params["name"], []).append(step.params["value"])
            return  # nobody is asked
        if name == "sys.Sleep" and not (
            type(step.params["ms"]) is int and 0 <= step.params["ms"] <= LONGEST_MS
        ):
            raise Problem("BadTimer")
        signal = self._signal(step, declared, call, scope)
        try:
            result = self._answer(name, step.params if signal is None else {"signal": signal})
            for each in declared.get("returns", []):
                if not fits(result.get(each["name"]), each["type"]):
                    raise Problem("ResultError")
        except Problem:
            self._worked(step, name, path, failed=True)
            raise
        self._worked(step, name, path, failed=False)
        if signal is not None:
            self.verdict.signals.append(Signal(shown(path), name, signal))
        step.returns.update(result)

    def _worked(self, step: Step, name: str, path: Path, *, failed: bool) -> None:
        payload = json.dumps(step.params, sort_keys=True)
        self.verdict.work.append(Work(shown(path), name, payload, failed))

    @staticmethod
    def _signal(step: Step, declared: Json, call: Json, scope: Scope) -> str | None:
        """The name of the signal that a step waits for; the call says it, or else the signature."""
        for node, place in ((call, scope), (declared, Scope(step.params))):
            found = policy(node, "Signal")
            if found is not None:
                name = value_of(found["args"][0]["value"], place)
                if not (isinstance(name, str) and name):
                    raise Problem("BadPolicy")
                return name
        return None

    def start(
        self, step: Step, declared: Json, name: str, call: Json, scope: Scope, path: Path, run: Run
    ) -> None:
        """A child run, which comes to its end apart from this one."""
        given = {a["name"]: value_of(a["value"], scope) for a in (policy(call, "Run") or {}).get("args", [])}
        inputs = {each["name"]: step.params[each["name"]] for each in declared["params"]}
        child = Child(shown(path), name, inputs, None, given.get("id", ""))
        child.detached, child.awaited = given.get("onParentClose") == "detach", given.get("wait", True)
        if child.run_id in self._run_ids:
            raise Problem("RunExists", f"there is a run {child.run_id} already")
        self._run_ids |= {child.run_id} - {""}
        self.verdict.children.append(child)
        try:
            child.verdict = run(name, inputs)
        except Endless:
            if policy(call, "Timeout") is None:
                raise
        if child.awaited:
            self._await(step, declared, child, path)

    def _await(self, step: Step, declared: Json, child: Child, path: Path) -> None:
        try:
            if child.verdict is None:
                raise Problem("Timeout", "not done after")
            if child.verdict.failure is not None:
                raise Problem(child.verdict.failure.kind, child.verdict.failure.text)
            if any(each["name"] not in child.verdict.outputs for each in declared["returns"]):
                raise Problem("ResultError", "the result lacks")
        except Problem:
            self._worked(step, child.workflow, path, failed=True)
            raise
        self._worked(step, child.workflow, path, failed=False)
        step.returns.update(child.verdict.outputs)
