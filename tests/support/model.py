"""A model of what AFL programs mean: recursive, in memory, without iterations, stores or ids.

It reads compiled programs and says what a run must come to. Statements refer to earlier ones only, so evaluating a
block from top to bottom gives what any order of completion must give: that is what the engine is compared with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from itertools import count
from typing import Any

from support.model_outcome import Outcome, Verdict, Yield, merged, split
from support.model_outside import Answer, Outside
from support.model_program import (
    Owners,
    Path,
    as_child_run,
    bodies_of,
    declarations,
    free_names,
    implicits,
    names_in,
    owners_of,
    policy,
    shown,
    without_bodies,
    yielded_names,
)
from support.model_values import Failure, Json, Passed, Problem, Scope, Step, fits, truth, value_of

KEPT = 10


class Model:
    """The meaning of one compiled program; `answer` does the work of event facets, raising Problem to fail.

    Where a step waits for a signal, `answer` is given its name: `{"signal": name}`. Endless means that none comes.
    """

    def __init__(self, program: Mapping[str, Any], answer: Answer) -> None:
        self._outside = Outside(answer)
        self._declared = dict(declarations(program, ""))
        self._supplied: dict[str, Json] = {}
        for call in implicits(program):
            self._supplied.setdefault(call["target"], call)

    def run(self, workflow: str, inputs: Json) -> Verdict:
        verdict = self._verdict = self._outside.verdict
        declared = self._declared[workflow]
        params = dict(inputs)
        for each in declared.get("params", []):
            if each["name"] not in params:
                params[each["name"]] = value_of(each["default"], Scope(params))
        root = Step(params)
        self._perform(root, declared, workflow, None, Scope(params), ())
        named = {each["name"] for each in declared.get("returns", [])}
        outputs = {n: v for n, v in root.returns.items() if n in named or n not in ("error", "error_type")}
        verdict.outputs, verdict.failure = {} if root.failure else outputs, root.failure
        return verdict

    def _run_apart(self, workflow: str, inputs: Json) -> Verdict:
        other = copy(self)
        other._outside = self._outside.of_another_run()
        return other.run(workflow, inputs)

    # -- steps ------------------------------------------------------------------------------------------------

    def _perform(
        self, step: Step, declared: Json, name: str, statement: Json | None, scope: Scope, path: Path
    ) -> list[Yield]:
        """Everything after the arguments: mixins, outside work, bodies, capture, catch. Yields for owners above."""
        above: list[Yield] = []
        own: list[Yield] = []
        loops: list[Json] = []
        owners = owners_of(name, declared, statement)
        try:
            self._mix_in(step, declared, path)
            call = statement["call"] if statement is not None else {}
            if declared["type"] == "EventFacetDecl":
                self._outside.ask(step, declared, name, call, scope, path)
            elif declared["type"] == "ChildRun":
                self._outside.start(step, declared, name, call, scope, path, self._run_apart)
            bodies, inline = bodies_of(declared, statement)
            outcome = Outcome()
            for body in bodies:
                ended = self._block(body, step, name, owners, scope if inline else None, path)
                outcome.add(ended)
                if "foreach" in body and ended.failure is None:
                    loops.append(body)
            own, above = split(outcome.yields)
            step.failure = outcome.failure
        except Problem as problem:
            step.failure = self._failure(problem, path, name)
        catch = (statement or {}).get("catch") or declared.get("catch")
        if step.failure is not None and catch:
            caught = self._catch(catch, step, name, owners, scope, path)
            more, further = split(caught.yields)
            own = [Yield(0, merged(own) | merged(more))]
            above += further
            step.failure = caught.failure
        if step.failure is None:
            self._capture(step, declared, own, loops)
        return above

    def _mix_in(self, step: Step, declared: Json, path: Path) -> None:
        failure: Failure | None = None
        mixed = {}
        for mixin in declared.get("mixins", []):
            if "alias" not in mixin:
                continue
            inner = (*path, f"@{mixin['alias']}")
            child = Step({})
            called = self._declared[mixin["target"]]
            try:
                given = {a["name"]: value_of(a["value"], Scope(step.params)) for a in mixin.get("args", [])}
                child.params = self._complete(given, called, mixin["target"])
                self._perform(child, called, mixin["target"], None, Scope(child.params), inner)
            except Problem as problem:
                child.failure = self._failure(problem, inner, mixin["target"])
            failure = failure or child.failure
            mixed[mixin["alias"]] = child.seen
        if failure is not None:
            raise Passed(failure)
        step.params = {**step.params, **mixed}

    def _capture(self, step: Step, declared: Json, own: list[Yield], loops: Sequence[Json] = ()) -> None:
        """The returns of a step; `loops` are its foreach blocks that completed."""
        step.returns.update(merged(own))
        lists = set(yielded_names(list(loops)))
        for each in declared.get("returns", []):
            if each["name"] in step.returns:
                continue
            if "default" in each:
                step.returns[each["name"]] = value_of(each["default"], Scope(step.params))
            elif isinstance(each["type"], dict) and each["name"] in lists:
                step.returns[each["name"]] = []

    def _catch(self, catch: Json, step: Step, name: str, owners: Owners, scope: Scope, path: Path) -> Outcome:
        assert step.failure is not None
        step.returns["error"] = step.failure.text
        step.returns["error_type"] = step.failure.kind
        step.failure = None
        if path:
            scope = Scope(scope.inputs, {**scope.steps, path[-1]: step}, scope.loop, scope.outer)
        return self._block(catch, step, name, owners, scope, path)

    def _failure(self, problem: Problem, path: Path, facet: str) -> Failure:
        if isinstance(problem, Passed):
            return problem.failure
        return Failure(shown(path) or facet, problem.kind, problem.text)

    # -- blocks -----------------------------------------------------------------------------------------------

    def _block(
        self, ast: Json, step: Step, name: str, owners: Owners, outer: Scope | None, path: Path
    ) -> Outcome:
        """A block of a step. With `outer` it stands inside a block and sees (and waits for) its steps."""
        if outer is not None and path:
            outer = Scope(outer.inputs, {**outer.steps, path[-1]: step}, outer.loop, outer.outer)
        scope = Scope(step.seen, outer=outer)
        try:
            if outer is not None and any(outer.lost(each) for each in free_names(ast)):
                raise Problem("DependencyFailed")
            if ast.get("when"):
                return self._when(ast["when"], scope, owners, path)
            if ast.get("foreach"):
                return self._foreach(ast, scope, owners, path)
            if ast.get("repeat"):
                return self._repeat(ast, step, name, scope, owners, path)
        except Problem as problem:
            return Outcome(failure=self._failure(problem, path, name))
        return self._statements(ast, scope, owners, path)

    def _when(self, when: Json, scope: Scope, owners: Owners, path: Path) -> Outcome:
        cases = when["cases"]
        chosen = [c for c in cases if "condition" in c and truth(value_of(c["condition"], scope))]
        outcome = Outcome()
        for case in chosen or [c for c in cases if "condition" not in c]:
            outcome.add(self._statements(case, Scope(scope.inputs, outer=scope.outer), owners, path))
        return outcome

    def _foreach(self, ast: Json, scope: Scope, owners: Owners, path: Path) -> Outcome:
        items = value_of(ast["foreach"]["iterable"], scope)
        if isinstance(items, dict):
            items = [{"key": key, "value": value} for key, value in items.items()]
        if not isinstance(items, list):
            raise Problem("TypeMismatch")
        if "limit" in ast["foreach"] and value_of(ast["foreach"]["limit"], scope) < 1:
            raise Problem("BadLimit")
        outcome, failures, collect = Outcome(), [], ast["foreach"].get("collect")
        for position, item in enumerate(items):
            inner = Scope(scope.inputs, loop={ast["foreach"]["variable"]: item}, outer=scope.outer)
            element = self._statements(ast, inner, owners, (*path, f"[{position}]"))
            if collect and element.failure is not None:
                failures.append(_collected(element.failure, position, item))
            else:
                outcome.add(element)
        if collect:
            outcome.yields.append(Yield(0, {collect: failures}))
        return outcome

    def _repeat(self, ast: Json, step: Step, name: str, scope: Scope, owners: Owners, path: Path) -> Outcome:
        repeat, state, limit = ast["repeat"], {}, None
        if "limit" in repeat:
            limit = value_of(repeat["limit"], scope)
            if type(limit) is not int or limit < 1:
                raise Problem("TypeMismatch")
        for number in count():
            gone = shown((*path, f"[{number - KEPT - 1}]"))
            work = self._verdict.work
            work[:] = [each for each in work if not each.step.startswith(f"{gone}.")]
            loop = {repeat["variable"]: {**self._returned(step, name), **state}}
            inner = Scope(scope.inputs, loop=loop, outer=scope.outer)
            ended = self._statements(ast, inner, owners, (*path, f"[{number}]"))
            if ended.failure is not None:
                return Outcome([Yield(0, state)], ended.failure)
            state |= merged(ended.yields)
            after = Scope(scope.inputs, loop={repeat["variable"]: {**self._returned(step, name), **state}})
            after.outer = scope.outer
            try:
                if truth(value_of(repeat["until"], after)):
                    break
                if number + 1 == limit:
                    text = f"the condition after 'until' is still false after {limit} iterations, its limit"
                    raise Problem("IterationLimit", text)
            except Problem as problem:
                return Outcome([Yield(0, state)], self._failure(problem, path, name))
        return Outcome([Yield(0, state)])

    def _returned(self, step: Step, name: str) -> Json:
        """The returns that a repeat begins with."""
        declared = self._declared[name].get("returns", [])
        defaults = {
            each["name"]: value_of(each["default"], Scope(step.params)) if "default" in each else None
            for each in declared
        }
        return defaults | step.returns

    def _statements(self, ast: Json, scope: Scope, owners: Owners, path: Path) -> Outcome:
        outcome = Outcome()
        for statement in ast.get("steps", []):
            outcome.add(self._statement(statement, scope, owners, path))
        for statement in ast.get("yields") or ([ast["yield"]] if "yield" in ast else []):
            outcome.add(self._yield(statement["call"], scope, owners, path))
        return outcome

    def _statement(self, statement: Json, scope: Scope, owners: Owners, path: Path) -> Outcome:
        if statement["type"] != "StepStmt":
            return self._system(statement, scope, path)
        call, name = statement["call"], statement["name"]
        scope.steps[name] = None
        if self._skipped(call, scope):
            return Outcome()
        declared = self._declared[call["target"]]
        if policy(call, "Run") is not None:
            declared = as_child_run(declared)
        inner, step = (*path, name), Step({})
        scope.steps[name] = step
        yields: list[Yield] = []
        try:
            step.params = self._complete(self._given(call, scope), declared, call["target"])
        except Problem as problem:
            yields = self._refused(problem, step, declared, statement, scope, owners, inner)
        else:
            if declared["type"] == "SchemaDecl":
                step.params, step.returns = {}, step.params
            else:
                yields = self._perform(
                    step, declared, call["target"], {**statement, "owners": owners}, scope, inner
                )
        return Outcome(yields, step.failure)

    def _refused(
        self,
        problem: Problem,
        step: Step,
        declared: Json,
        statement: Json,
        scope: Scope,
        owners: Owners,
        path: Path,
    ) -> list[Yield]:
        """The arguments could not be had; the step's catch is told."""
        target = statement["call"]["target"]
        step.failure = self._failure(problem, path, target)
        catch = statement.get("catch") or declared.get("catch")
        if not catch:
            return []
        own_owners = owners_of(target, declared, {**statement, "owners": owners})
        caught = self._catch(catch, step, target, own_owners, scope, path)
        own, above = split(caught.yields)
        step.failure = caught.failure
        if step.failure is None:
            self._capture(step, declared, own)
        return above

    def _system(self, statement: Json, scope: Scope, path: Path) -> Outcome:
        if self._skipped(statement, scope):
            return Outcome()
        try:
            for each in statement.get("args", []):
                value_of(each["value"], scope)
            if "condition" not in statement:
                self._verdict.logs += 1
            elif not truth(value_of(statement["condition"], scope)):
                raise Problem("AssertionError")
        except Problem as problem:
            return Outcome(failure=self._failure(problem, (*path, "sys"), ""))
        return Outcome()

    def _yield(self, call: Json, scope: Scope, owners: Owners, path: Path) -> Outcome:
        if self._skipped(call, scope):
            return Outcome()
        level = next(i for i, names in enumerate(owners) if call["target"] in names)
        try:
            values = {each["name"]: value_of(each["value"], scope) for each in call.get("args", [])}
            _check_types(values, self._declared.get(call["target"], {}).get("returns", []))
        except Problem as problem:
            return Outcome(failure=self._failure(problem, (*path, "yield"), ""))
        return Outcome([Yield(level, values)])

    def _skipped(self, node: Json, scope: Scope) -> bool:
        """Whether a statement refers to a step of its own block that failed or was skipped."""
        own = {name for name in names_in(without_bodies(node)) if name in scope.steps}
        return any(scope.lost(name) for name in own)

    # -- arguments --------------------------------------------------------------------------------------------

    def _given(self, call: Json, scope: Scope) -> Json:
        values = {each["name"]: value_of(each["value"], scope) for each in call.get("args", [])}
        for mixin in call.get("mixins", []):
            if mixin["target"] not in self._declared:  # a policy
                continue
            mixed = {each["name"]: value_of(each["value"], scope) for each in mixin.get("args", [])}
            if "alias" in mixin:
                values[mixin["alias"]] = mixed
            else:
                values = {**mixed, **values}
        return values

    def _complete(self, values: Json, declared: Json, name: str) -> Json:
        values = dict(values)
        fields = declared.get("fields" if declared["type"] == "SchemaDecl" else "params", [])
        supplied = [(a["name"], a["value"]) for a in self._supplied.get(name, {}).get("args", [])]
        defaults = [(each["name"], each["default"]) for each in fields if "default" in each]
        for key, expression in (*supplied, *defaults):
            if key not in values:
                values[key] = value_of(expression, Scope(values))
        if any(each["name"] not in values for each in fields):
            raise Problem("MissingArgument")
        _check_types(values, fields)
        return values


def _check_types(values: Json, fields: list[Json]) -> None:
    if not all(fits(values.get(each["name"]), each["type"]) for each in fields):
        raise Problem("TypeMismatch")


def _collected(failure: Failure, position: int, item: Any) -> Json:
    """A value of sys.Failure."""
    return {
        "error_type": failure.kind,
        "message": failure.text,
        "index": position,
        "element": item,
        "step": failure.step,
    }
