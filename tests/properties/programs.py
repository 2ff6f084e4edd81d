"""Random valid AFL programs: facets, event facets and workflows with chains, fan-outs, bodies, loops and when.

The generator keeps track of which references have which type, so that every program it draws compiles.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

TYPES = ("Long", "String", "Boolean", "[Long]", "Json")
NAMES = ("alpha", "beta", "event", "schema", "in", "when", "yield", "value", "with", "facet")


@dataclass
class Facet:
    """A declared facet: what a call must pass and what a step then offers."""

    name: str
    params: dict[str, str]
    returns: dict[str, str]
    is_event: bool
    body: str = ""

    def source(self) -> str:
        keyword = "event facet" if self.is_event else "facet"
        body = f" {self.body}" if self.body else ""
        return f"{keyword} {signature(self.name, self.params, self.returns)}{body}"


@dataclass
class Values:
    """References by type, as they may be written at one place."""

    known: dict[str, list[str]] = field(default_factory=dict)

    def add(self, prefix: str, slots: dict[str, str]) -> None:
        for name, kind in slots.items():
            self.known.setdefault(kind, []).append(f"{prefix}{name}")

    def copy(self) -> Values:
        return Values({kind: list(names) for kind, names in self.known.items()})

    def of(self, kind: str) -> list[str]:
        return self.known.get(kind, []) + (self.known.get("Json", []) if kind != "Json" else [])


def signature(name: str, params: dict[str, str], returns: dict[str, str]) -> str:
    def listed(slots: dict[str, str]) -> str:
        return ", ".join(f"{slot}: {kind}" for slot, kind in slots.items())

    return f"{name}({listed(params)})" + (f" => ({listed(returns)})" if returns else "")


slots = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(TYPES), min_size=1, max_size=3)
texts = st.text(
    st.characters(codec="utf-8", exclude_characters='"\\', exclude_categories=("Cs", "Cc")), max_size=8
)


@st.composite
def literals(draw: DrawFn, kind: str) -> str:
    if kind == "Long":
        return str(draw(st.integers(0, 10**6)))
    if kind == "Boolean":
        return draw(
            st.sampled_from(["true", "false", "1 < 2", "!false", '"ab" contains "a"', "2 not in [1]"])
        )
    if kind == "[Long]":
        return "[" + ", ".join(str(n) for n in draw(st.lists(st.integers(0, 9), max_size=3))) + "]"
    if kind == "Json":
        return draw(st.sampled_from(["null", "#{a: 1}", '#{"b c": [2, 3.5]}', "-4", "1.25e3"]))
    return f'"{draw(texts)}"'


@st.composite
def expressions(draw: DrawFn, kind: str, values: Values, depth: int = 0) -> str:
    references = values.of(kind)
    choices = ["literal"] + ["reference"] * (2 if references else 0) + (["operator"] if depth < 2 else [])
    choice = draw(st.sampled_from(choices))
    if choice == "reference":
        return draw(st.sampled_from(references))
    operators = {"Long": ("+", "-", "*", "%"), "String": ("++",), "Boolean": ("&&", "||")}
    if choice == "literal" or kind not in operators:
        return draw(literals(kind))
    left = draw(expressions(kind, values, depth + 1))
    right = draw(expressions(kind, values, depth + 1))
    return f"({left}) {draw(st.sampled_from(operators[kind]))} ({right})"


@st.composite
def arguments(draw: DrawFn, wanted: dict[str, str], values: Values) -> str:
    return ", ".join(f"{name} = {draw(expressions(kind, values))}" for name, kind in wanted.items())


@st.composite
def steps(draw: DrawFn, facets: list[Facet], values: Values, prefix: str, inline: bool = True) -> str:
    """Statements of a block; `values` grows by what they offer."""
    lines = []
    for number in range(draw(st.integers(0, 4))):
        facet = draw(st.sampled_from(facets))
        name = f"{prefix}{number}"
        line = f"{name} = {facet.name}({draw(arguments(facet.params, values))})"
        if facet.is_event and draw(st.booleans()):
            line += draw(
                st.sampled_from([" with Retry(3)", " with Timeout(minutes = 1) with Priority(n = 2)"])
            )
        offered = values.copy()
        offered.add(f"{name}.", facet.params | facet.returns)
        if inline and draw(st.integers(0, 4)) == 0:
            line += draw(inline_bodies(facet, facets, offered, name))
        values.known = offered.known
        lines.append(line)
    if draw(st.integers(0, 5)) == 0:
        lines.append(f"sys.log(seen = {draw(expressions('Json', values))})")
    return "\n".join(lines)


@st.composite
def inline_bodies(draw: DrawFn, facet: Facet, facets: list[Facet], outer: Values, name: str) -> str:
    values = Values({kind: [one for one in known if one[0] != "$"] for kind, known in outer.known.items()})
    values.add("$.", facet.params | facet.returns)
    caught = f"yield {facet.name}({draw(arguments(facet.returns, values))})" if facet.returns else ""
    inner = draw(steps(facets, values, f"{name}_", inline=False))
    yielded = f"yield {facet.name}({draw(arguments(facet.returns, values))})" if facet.returns else ""
    tail = draw(st.sampled_from(["", f" catch {{ {caught} }}"]))
    return f" andThen {{\n{inner}\n{yielded}\n}}{tail}"


@st.composite
def blocks(
    draw: DrawFn, owner: str, params: dict[str, str], returns: dict[str, str], facets: list[Facet]
) -> str:
    """One `andThen` of a declaration."""
    values = Values()
    values.add("$.", params)
    lists = values.known.get("[Long]", [])
    kind = draw(
        st.sampled_from(
            ["plain", "plain", "when", *(["foreach"] if lists else []), *(["repeat"] if returns else [])]
        )
    )
    head = "andThen"
    if kind == "foreach":
        head = f"andThen foreach each in {draw(st.sampled_from(lists))}"
        values.known.setdefault("Long", []).append(draw(st.sampled_from(["each", "$.each"])))
    if kind == "when":
        condition = draw(expressions("Boolean", values))
        inner = draw(steps(facets, values.copy(), "w"))
        return f"andThen when {{ case {condition} => {{ {inner}\n }} case _ => {{ }} }}"
    tail = ""
    if kind == "repeat":
        head = f"andThen repeat state{draw(st.sampled_from(['', ' limit 3', ' limit 1 + 1']))}"
        values.add(draw(st.sampled_from(["state.", "$.state."])), returns)
        tail = f" until {draw(expressions('Boolean', values))}"
    inner = draw(steps(facets, values, "s"))
    yielded = f"yield {owner}({draw(arguments(returns, values))})" if returns else ""
    return f"{head} {{\n{inner}\n{yielded}\n}}{tail}"


@st.composite
def facet_lists(draw: DrawFn) -> list[Facet]:
    """Facets; the later ones may have bodies that call the earlier ones."""
    facets: list[Facet] = []
    for number in range(draw(st.integers(1, 4))):
        facet = Facet(f"F{number}", draw(slots), draw(slots | st.just({})), draw(st.booleans()))
        if facets and not facet.is_event and draw(st.booleans()):
            facet.body = draw(blocks(facet.name, facet.params, facet.returns, list(facets)))
        facets.append(facet)
    return facets


@st.composite
def _programs(draw: DrawFn) -> str:
    facets = draw(facet_lists())
    params, returns = draw(slots), draw(slots)
    bodies = [draw(blocks("W", params, returns, facets)) for _ in range(draw(st.integers(1, 2)))]
    declared = "\n".join(facet.source() for facet in facets)
    workflow = f"workflow {signature('W', params, returns)} " + "\n".join(bodies)
    if draw(st.booleans()):
        return f"namespace lib.1 {{\n{declared}\n}}\nnamespace main {{ uses lib.1\n{workflow}\n}}\n"
    return f"{declared}\n{workflow}\n"


def programs() -> SearchStrategy[str]:
    """Sources of valid programs."""
    return _programs()
