"""Random workflows that compile, with everything that can make an engine and its model disagree.

Chains, fan-outs, inline bodies, facet bodies, several blocks, foreach over lists and maps, repeat, when, catch, mixins
with and without alias, implicits, defaults, schemas, workflows as steps and as child runs, timers, published values,
signals that come and that do not, limits; and steps that fail. References are drawn by type, so most programs get far
before something fails.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from support.case import FAILURES, Callee, Case, Names
from support.random_expressions import TYPES, Expressions

BLOCKS = ("plain", "foreach", "repeat", "when")
POLICIES = (
    "",
    "",
    "",
    " with Retry(2, backoff = 0)",
    " with Priority(2)",
    " with Timeout(hours = 1)",
    ' with Rate("some", perMinute = 60000)',
    ' with Concurrency("few", limit = 3)',
)


class Writer(Expressions):
    """Writes programs; one that is `alone` waits for agents and timers only, not for signals and child runs."""

    def __init__(self, choices: bytes, size: int, *, alone: bool = False) -> None:
        super().__init__(choices)
        self._size = size
        self._alone = alone
        self._left = 0
        self._callees: list[Callee] = []
        self._runs = count()
        self._runs_once = False  # whether what is written now is done once in a run, and may name child runs

    # -- blocks -----------------------------------------------------------------------------------------------

    def block(self, owners: list[Callee], names: Names, depth: int, kinds: Sequence[str] = BLOCKS) -> str:
        """One andThen or catch block, from `{` (or its foreach or when) on."""
        kind = self.pick(["plain", *kinds])
        if kind == "foreach":
            control = self._control(owners[0], names)
            head = self._loop(names := names.copy(), depth) + control
            return f"foreach {head} {{\n{self._again(owners, names, depth)}}}"
        if kind == "repeat" and owners[0].returns:
            return self._repeat(owners[0], names.copy(), depth)
        if kind == "when":
            cases = [
                f"case {self.expression('Boolean', names)} => {{\n{self._inside(owners, names.copy(), depth)}}}"
                for _ in range(self.number(1, 2))
            ]
            rest = f"case _ => {{\n{self._inside(owners, names.copy(), depth)}}}"
            return "when {\n" + "\n".join([*cases, rest]) + "\n}"
        return f"{{\n{self._inside(owners, names.copy(), depth)}}}"

    def _loop(self, names: Names, depth: int) -> str:
        variable = f"r{depth}"
        if self.rarely():
            entries = ", ".join(
                f"{key}: {self.expression('Long', names, 1)}" for key in "xyz"[: self.number(0, 3)]
            )
            iterable = f"#{{{entries}}}"
            names.add(f"{variable}.", {"key": "String", "value": "Long"})
        else:
            iterable = self.expression("[Long]", names, 1)
            names.add(self.pick(["", "$."]), {variable: "Long"})
        return f"{variable} in {iterable}"

    def _control(self, owner: Callee, names: Names) -> str:
        limit = self.pick(["", "", " limit 1", " limit 2", f" limit 1 + {self.expression('Long', names, 1)}"])
        return limit + (" collect lost" if "lost" in owner.returns and not self.rarely() else "")

    def _repeat(self, owner: Callee, names: Names, depth: int) -> str:
        """With a limit, so that it ends. Its variable may have null, which no condition takes for a Boolean."""
        variable, limit = f"l{depth}", self.pick(["1", "2", "3", "1 + 1"])
        known = {name: kind for name, kind in owner.returns.items() if kind != "Boolean"}
        names.add(self.pick([f"{variable}.", f"$.{variable}."]), known)
        until = self.expression("Boolean", names)
        inside = self._again([owner], names, depth, complete=True)
        return f"repeat {variable} limit {limit} {{\n{inside}}} until {until}"

    def _again(self, owners: list[Callee], names: Names, depth: int, *, complete: bool = False) -> str:
        """The inside of a block that is done more than once."""
        before, self._runs_once = self._runs_once, False
        inside = self._inside(owners, names, depth, complete=complete)
        self._runs_once = before
        return inside

    def _inside(self, owners: list[Callee], names: Names, depth: int, *, complete: bool = False) -> str:
        lines = []
        for number in range(self.number(1 - min(depth, 1), 4 - min(depth, 2))):
            if self._left <= 0:
                break
            self._left -= 1
            lines.append(self._statement(f"{'abcdef'[depth]}{number}", owners, names, depth))
        lines += self._yields(owners, names, complete=complete)
        return "".join(f"{line}\n" for line in lines)

    def _built_in(self, name: str, names: Names) -> str:
        form = self.number(0, 3)
        if form <= 1:
            published = self.pick(["one", "two"])
            value = self.expression(self.pick(TYPES), names)
            return f'{name} = sys.Publish(name = "{published}", value = {value})'
        if form == 2:
            return f'{name} = sys.Until(time = "2020-01-01T00:00:00Z")'
        time = f"{self.expression('Long', names)} % {self.pick(['2', '2', '2', '3 - 1'])}"
        names.add(f"{name}.", {"ms": "Long"})
        return f"{name} = sys.Sleep(ms = {time})"

    def _statement(self, name: str, owners: list[Callee], names: Names, depth: int) -> str:
        if self.rarely(10):
            condition = self.expression("Boolean", names)
            return self.pick([f"sys.log(v = {condition})", f"sys.assert({condition})"])
        if self.rarely(12):
            line = self._built_in(name, names) + self._after(names)
            names.steps.append(name)
            return line
        callee = self.pick(
            self._callees + [each for each in self._callees if each.is_event or each.is_workflow]
        )
        line = f"{name} = {callee.name}({self.arguments(callee.params, names, callee.optional)})"
        if callee.is_schema:
            names.add(f"{name}.", callee.params)
            return line
        run = self._child_run() if callee.is_workflow and not self._alone and not self.rarely(3) else ""
        line += (run or self._call_mixin(callee, names)) + self._after(names)
        if run:
            callee = replace(callee, is_event=True, returns={} if "wait" in run else callee.returns)
        line += self._blocks(callee, name, owners, names, depth)
        names.steps.append(name)
        return line

    def _blocks(self, callee: Callee, name: str, owners: list[Callee], names: Names, depth: int) -> str:
        """The bodies and the catch of a step; what can be referred to afterwards is added to the names."""
        text = ""
        bodied = depth < 3 and self.rarely()
        if bodied:
            text += self._bodies(callee, name, owners, names, depth)
        keeps_returns = callee.keeps_returns
        if depth < 3 and self.rarely(2 if callee.name == "lib.Late" else 4):
            keeps_returns = self.rarely(2) and bool(callee.returns)
            text += self._catch(callee, name, owners, names, depth, complete=keeps_returns)
        names.add(f"{name}.", callee.params)
        if keeps_returns and (not bodied or callee.is_event or self.rarely()):
            names.add(f"{name}.", callee.returns)
        return text

    def _after(self, names: Names) -> str:
        return f" with After({self.pick(names.steps)})" if names.steps and self.rarely(8) else ""

    def _child_run(self) -> str:
        """Without an id where the step may be there more than once; what is not awaited has no returns."""
        options = [f'id = "run-{next(self._runs)}"'] if self._runs_once and self.rarely(2) else []
        options += ['onParentClose = "detach"'] if self.rarely(2) else []
        options += ['taskList = "other"'] if self.rarely() else []
        options += ["wait = false"] if self.rarely() else []
        return f" with Run({', '.join(options)})" + self.pick(["", " with Timeout(hours = 1)"])

    def _call_mixin(self, callee: Callee, names: Names) -> str:
        if callee.name == "lib.Told":
            name = self.expression("Long", names)
            return self.pick(["", "", f' with Signal("other-" ++ {name})', " with Timeout(hours = 1)"])
        if callee.name == "lib.Late":
            return self.pick(["", " with Retry(2, backoff = 0)"])
        if callee.is_event:
            return self.pick(POLICIES)
        if not self.rarely(6):
            return ""
        alias = self.pick(["", " as extra"])
        return f" with lib.Options({self.arguments({'level': 'Long'}, names)}){alias}"

    def _bodies(self, callee: Callee, name: str, owners: list[Callee], names: Names, depth: int) -> str:
        inner = self._inner_names(callee, name, names)
        blocks = [self.block([callee, *owners], inner, depth + 1) for _ in range(self.number(1, 2))]
        return "".join(f" andThen {block}" for block in blocks)

    def _inner_names(self, callee: Callee, name: str, names: Names) -> Names:
        inner = names.without_inputs()
        inner.add("$.", callee.params)
        inner.add(f"{name}.", callee.params)
        if callee.is_event:
            inner.add(self.pick(["$.", f"{name}."]), callee.returns)
        return inner

    def _catch(
        self, callee: Callee, name: str, owners: list[Callee], names: Names, depth: int, *, complete: bool
    ) -> str:
        inner = names.without_inputs()
        inner.add(self.pick(["$.", f"{name}."]), {"error_type": "String"})
        inner.known.setdefault("Boolean", []).append(f'({name}.error contains "boom")')
        if complete:
            return f" catch {{\nyield {callee.name}({self.arguments(callee.given, inner)})\n}}"
        return f" catch {self.block([callee, *owners], inner, depth + 1, ('when',))}"

    def _yields(self, owners: list[Callee], names: Names, *, complete: bool) -> list[str]:
        lines = []
        for owner in {owner.name: owner for owner in owners}.values():
            if owner.returns and (complete or not self.rarely(5)):
                wanted = {n: k for n, k in owner.given.items() if complete or not self.rarely(5)}
                lines.append(f"yield {owner.name}({self.arguments(wanted, names)})")
        return lines

    # -- declarations -----------------------------------------------------------------------------------------

    def slots(self, names: str, least: int) -> dict[str, str]:
        return {names[i]: self.pick(TYPES) for i in range(self.number(least, len(names)))}

    def _signature(self, callee: Callee, defaults: frozenset[str]) -> str:
        params = ", ".join(
            f"{name}: {kind}" + (f" = {self.literal(kind)}" if name in defaults else "")
            for name, kind in callee.params.items()
        )
        returns = ", ".join(f"{name}: {kind}" for name, kind in callee.returns.items())
        return f"{callee.name.rpartition('.')[2]}({params})" + (f" => ({returns})" if returns else "")

    def _lost(self) -> dict[str, str]:
        return {"lost": FAILURES} if self.rarely(2) else {}

    def events(self) -> None:
        for name in ("Calm", "Risky", "Sloppy")[: self.number(1, 3)]:
            event = Callee(f"lib.{name}", self.slots("pq", 1), self.slots("uv", 1), is_event=True)
            event.optional = frozenset(name for name in event.params if self.rarely())
            event.source = f"event facet {self._signature(event, event.optional)}"
            self._callees.append(event)

    def signals(self) -> None:
        """The name of a signal says what its value is, so any of a name will do for a step that waits for it."""
        for name, waits in (
            ("Told", 'Signal("told-" ++ $.p)'),
            ("Late", 'Signal("late") with Timeout(ms = 1)'),
        )[: self.pick([0, 1, 1, 2])]:
            event = Callee(f"lib.{name}", {"p": "Long"}, self.slots("uv", 1), is_event=True)
            event.source = f"event facet {self._signature(event, frozenset())} with {waits}"
            self._callees.append(event)

    def schema(self) -> None:
        if self.rarely(2):
            fields = self.slots("gh", 1)
            listed = ", ".join(f"{name}: {kind}" for name, kind in fields.items())
            source = f"schema Shape {{ {listed} }}"
            self._callees.append(Callee("lib.Shape", fields, {}, source, is_schema=True))

    def facet(self, name: str, keyword: str) -> None:
        facet = Callee(f"lib.{name}", self.slots("mn", 1), self.slots("st", 1) | self._lost())
        facet.is_workflow = keyword == "workflow"
        self._left = self._size // 3
        facet.optional = frozenset(name for name in facet.params if self.rarely())
        names = Names()
        names.add("$.", facet.params)
        head = f"{keyword} {self._signature(facet, facet.optional)}"
        if keyword == "facet" and self.rarely(3):
            head += self._signature_mixin(names)
        if self.rarely(8):
            blocks = ""
        else:
            blocks = "".join(f"\nandThen {self.block([facet], names, 0)}" for _ in range(self.number(1, 2)))
        if blocks and self.rarely():
            caught = Names({"Boolean": ['($.error contains "boom")']})
            blocks += f"\ncatch {self.block([facet], caught, 2, ('when',))}"
            facet.keeps_returns = False
        facet.source = f"{head}{blocks}"
        self._callees.append(facet)

    def _signature_mixin(self, names: Names) -> str:
        mixed = self.pick([each for each in self._callees if not each.is_schema])
        text = f" with {mixed.name}({self.arguments(mixed.params, names, mixed.optional)}) as mix"
        names.add("$.mix.", mixed.params | mixed.returns)
        return text

    def implicit(self) -> str:
        """An implicit that supplies one parameter; calls written later may then leave it out."""
        candidates = [each for each in self._callees if not each.is_schema]
        if not candidates or not self.rarely(2):
            return ""
        callee = self.pick(candidates)
        name = self.pick(list(callee.params))
        callee.optional |= {name}
        return f"implicit usual = {callee.name}({name} = {self.literal(callee.params[name])})"

    def program(self) -> Case:
        self.events()
        if not self._alone:
            self.signals()
        self.schema()
        if self.rarely(2):
            self.facet("Plain", "facet")
        implicit = self.implicit()
        for name in ("Sub", "Top")[: self.pick([0, 1, 2, 2])]:
            self.facet(name, "workflow")
        params, returns = self.slots("ijk", 1), self.slots("xyz", 1) | self._lost()
        params["list"] = "[Long]"
        workflow = Callee("main.W", params, returns)
        names = Names()
        names.add("$.", params)
        head = f"workflow {self._signature(workflow, frozenset())}"
        self._runs_once, self._left = True, self._size
        blocks = "".join(f"\nandThen {self.block([workflow], names, 0)}" for _ in range(self.number(1, 2)))
        library = "\n".join([each.source for each in self._callees] + [implicit])
        source = f"namespace lib {{\nfacet Options(level: Long)\n{library}\n}}\nnamespace main {{\n{head}{blocks}\n}}\n"
        return Case(source, {name: self._input(kind) for name, kind in params.items()})

    def _input(self, kind: str) -> Any:
        return json.loads(self.literal(kind))


# All at once: to draw them one by one takes longer than to compile and run the program. Few programs need more, and
# those go on with the least choice.
_CHOICES = st.binary(min_size=1024, max_size=1024)


@st.composite
def cases(draw: DrawFn, size: int = 12, *, alone: bool = False) -> Case:
    """Programs of at most about `size` statements, with inputs; `alone`: without signals and child runs."""
    return Writer(draw(_CHOICES), size, alone=alone).program()
