"""Which steps of a run a fork keeps, and which it executes again.

A step depends on the chosen one if its statement refers to that, if it stands in a block that does (a block begins when
all that it takes from outside is complete), or if it refers to a step that depends on it or contains it: a step with
blocks or mixins returns what those yield. Elements of a foreach do not depend on each other, iterations of a repeat
depend on those before them. What is not complete is executed again in any case.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from afl.runtime.program import paths
from afl.runtime.program.block import StatementDefinition
from afl.runtime.program.declaration import Declaration
from afl.runtime.program.dependency import DependencyGraph
from afl.runtime.program.program import Program
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import ObjectType

_NOTHING: frozenset[str] = frozenset()


@dataclass
class ForkPlan:
    """Steps by their paths in the run; those that are not named here are left out, and created when their time comes.

    `kept` stay as they are. `reopened` hold some that are kept and some that are not: each waits in the given state.
    `reset` begin anew at once, as nothing that they need is executed again. `repeats` has the iteration at which
    each reopened repeat goes on. `orphans` are complete steps of reopened blocks that the program does not have.
    """

    kept: set[str] = field(default_factory=set)
    reopened: dict[str, str] = field(default_factory=dict)
    reset: set[str] = field(default_factory=set)
    repeats: dict[str, int] = field(default_factory=dict)
    orphans: list[str] = field(default_factory=list)


def plan_fork(
    program: Program, steps: Mapping[str, StepDefinition], chosen: str, changed: Collection[str] = ()
) -> ForkPlan:
    """The plan for a fork at a step; `changed` are steps that are kept, but with other results.

    `steps` are all those of the run, by their paths; the chosen one is among them, and is not the root.
    """
    planner = _Planner(program, steps, chosen, changed)
    planner.plan_root()
    return planner.plan


class _Planner:
    def __init__(
        self, program: Program, steps: Mapping[str, StepDefinition], chosen: str, changed: Collection[str]
    ) -> None:
        self.plan = ForkPlan()
        self._program = program
        self._steps = steps
        self._chosen = chosen
        self._changed = frozenset(changed)
        self._above = {""}  # what holds a step that is executed again, or has another result
        for seed in (chosen, *changed):
            self._above.update(paths.prefixes(seed)[:-1])
        self._children: dict[str, list[str]] = {}
        for path in steps:
            if path:
                self._children.setdefault(paths.parent(path), []).append(path)

    def plan_root(self) -> None:
        """Plan the whole run."""
        if not self._step(""):
            self.plan.reset.add("")

    # -- statements, mixins and the root ----------------------------------------------------------------------

    def _step(self, path: str, stale: Collection[str] = _NOTHING) -> bool:
        """Plan a step and what is below it; False if nothing of it is kept. `stale` are blocks to begin anew."""
        if path == self._chosen:
            return False
        if self._stays(path) and not any(f"{path}/{segment}" in self._steps for segment in stale):
            self._keep(path)
            return True
        return (
            self._reopen_mixins(path, only_if_changed=True)
            or self._reopen_catch(path, stale)
            or self._reopen_bodies(path, stale)
            or self._reopen_mixins(path)
        )

    def _reopen_mixins(self, path: str, *, only_if_changed: bool = False) -> bool:
        """Let a step wait for its mixins again: all that comes after them is executed again."""
        mixins = [child for child in self._children.get(path, ()) if paths.key(child).startswith("@")]
        if not mixins or (only_if_changed and not any(self._is_other(mixin) for mixin in mixins)):
            return False
        for mixin in mixins:
            if not self._step(mixin):
                self.plan.reset.add(mixin)
        self.plan.reopened[path] = StepState.MIXIN_BLOCKS_CONTINUE
        return True

    def _reopen_catch(self, path: str, stale: Collection[str]) -> bool:
        """Let a step wait for its catch block again, if what failed before that stays as it is."""
        catch = self._below(path, "!")
        before = [child for child in self._children.get(path, ()) if child != catch]
        if catch not in self._steps or any(
            self._is_other(each) or paths.key(each) in stale for each in before
        ):
            return False
        for each in before:
            self._keep(each)
        self._block(catch, self._program.catch_of(self._statement(path)), "!" in stale)
        self.plan.reopened[path] = StepState.STATEMENT_CATCH_CONTINUE
        return True

    def _reopen_bodies(self, path: str, stale: Collection[str]) -> bool:
        """Let a step wait for its blocks again."""
        if self._below(path, "0") not in self._steps:
            return False
        for mixin in (child for child in self._children[path] if paths.key(child).startswith("@")):
            self._keep(mixin)
        bodies = self._program.bodies_of(self._statement(path))
        for position, graph in enumerate(bodies):
            self._block(self._below(path, str(position)), graph, str(position) in stale)
        present = (child for child in self._children[path] if paths.key(child).isdigit())
        self.plan.orphans += [child for child in present if int(paths.key(child)) >= len(bodies)]
        self.plan.reopened[path] = StepState.STATEMENT_BLOCKS_CONTINUE
        return True

    # -- blocks -----------------------------------------------------------------------------------------------

    def _block(self, path: str, graph: DependencyGraph | None, stale: bool = False) -> None:
        """Plan a block of a step that waits for it again."""
        block = self._steps.get(path)
        if block is not None and (
            graph is None or block.object_type not in (graph.object_type, ObjectType.BLOCK)
        ):
            self.plan.orphans.append(path)
        elif block is None or graph is None or stale or path == self._chosen:
            self.plan.reset.add(path)
        elif self._stays(path):
            self._keep(path)
        elif block.progress is None or not self._children.get(path):
            self.plan.reset.add(path)
        else:
            self.plan.reopened[path] = StepState.BLOCK_EXECUTION_CONTINUE
            self._inside(path, block, graph)

    def _inside(self, path: str, block: StepDefinition, graph: DependencyGraph) -> None:
        if block.object_type == ObjectType.AND_REPEAT:
            self._iterations(path, graph)
        elif block.object_type == ObjectType.AND_MAP:
            for element in self._children.get(path, ()):
                self._block(element, graph)
        elif block.object_type == ObjectType.AND_WHEN:
            for case in self._children.get(path, ()):
                position = int(paths.key(case)[1:])
                known = position < len(graph.cases)
                self._block(case, graph.cases[position].graph if known else None)
        else:
            self._statements(path, graph)

    def _iterations(self, path: str, graph: DependencyGraph) -> None:
        """Those before the first that is executed again are kept, those after it are left out."""
        last = ""
        for last in sorted(self._children.get(path, ()), key=lambda child: int(paths.key(child)[1:])):
            if not self._stays(last):
                self._block(last, graph)
                break
            self._keep(last)
        self.plan.repeats[path] = int(paths.key(last).lstrip("#"))

    def _statements(self, path: str, graph: DependencyGraph) -> None:
        other: set[str] = set()  # the keys of steps whose results may be others now
        open_: set[str] = set()  # of those, the ones that are executed again
        bodies: dict[str, list[tuple[str, str]]] = {}
        for name, needing in graph.body_needs.items():
            for key, segment in needing:
                bodies.setdefault(key, []).append((name, segment))
        for key in _in_order(graph):
            child, statement = self._below(path, key), graph.by_key[key]
            waits = not open_.isdisjoint(statement.needs)
            if other.isdisjoint(statement.needs) and child in self._steps:
                stale = {segment for name, segment in bodies.get(key, ()) if name in other}
                if self._step(child, stale):
                    if child in self._changed:
                        other.add(key)
                    if child not in self.plan.kept:
                        other.add(key)
                        open_.add(key)
                    continue
            other.add(key)
            open_.add(key)
            if not waits and (child == self._chosen or not statement.needs):
                self.plan.reset.add(child)
        for child in self._children.get(path, ()):
            if paths.key(child) not in graph.by_key and self._stays(child):
                self.plan.orphans.append(child)

    # -- what the run and the program have --------------------------------------------------------------------

    def _stays(self, path: str) -> bool:
        """Whether a step is complete, and nothing below it is executed again by itself."""
        return self._steps[path].is_complete and path not in self._above and path != self._chosen

    def _is_other(self, path: str) -> bool:
        """Whether what a mixin or a body gives may be something else now; a failure that was caught stays one."""
        caught = self._below(paths.parent(path), "!") in self._steps
        seeded = path == self._chosen or path in self._above or path in self._changed
        return seeded or not (caught or self._steps[path].is_complete)

    def _keep(self, path: str) -> None:
        pending = [path]
        for each in pending:
            self.plan.kept.add(each)
            pending += self._children.get(each, ())

    def _statement(self, path: str) -> StatementDefinition | None:
        return self._program.place(path).statement

    @staticmethod
    def _below(path: str, key: str) -> str:
        return f"{path}/{key}" if path else key


def called_by(program: Program, path: str) -> Declaration | None:
    """What the step of a path calls; None for a block, and for an undeclared facet."""
    statement = program.place(path).statement
    if statement is not None:
        return program.declarations.get(statement.facet_name)
    return program.workflow if not path else None


def _in_order(graph: DependencyGraph) -> Iterable[str]:
    """The keys of a block's statements, each after those that it or one of its bodies refers to."""
    needs = {key: set(statement.needs) for key, statement in graph.by_key.items()}
    for name, bodies in graph.body_needs.items():
        for key, _ in bodies:
            needs[key].add(name)
    dependents: dict[str, list[str]] = {}
    for key, names in needs.items():
        for name in names - {key}:
            dependents.setdefault(name, []).append(key)
    missing = {key: len(names - {key}) for key, names in needs.items()}
    ready = [key for key, count in missing.items() if not count]
    for key in ready:
        for each in dependents.get(key, ()):
            missing[each] -= 1
            if not missing[each]:
                ready.append(each)
    return [*ready, *(key for key in needs if missing[key])]  # those that wait for each other come last
