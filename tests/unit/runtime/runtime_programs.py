"""Programs the runtime's tests share, and short ways to make hand-built ones."""

from __future__ import annotations

from typing import Any

from afl.language import compile_source

Ast = dict[str, Any]

NUMBER = "facet N(n: Long)\n"

ASK = """
event facet Ask(i: Long) => (o: Long)
workflow W(i: Long = 1) => (r: Long) andThen {
    a = Ask(i = $.i)
    yield W(r = a.o)
}
"""

ASK_TWICE = """
namespace ns {
    event facet First(i: Long) => (o: Long)
    event facet Second(i: Long) => (o: Long)
    workflow W(i: Long = 1) => (r: Long) andThen {
        a = First(i = $.i)
        b = Second(i = a.o)
        yield W(r = b.o)
    }
}
"""


def compiled(source: str) -> Ast:
    """The compiled program of AFL text."""
    return compile_source(source).program


def workflow_of(program: Ast, name: str = "") -> Ast:
    """A workflow node of a compiled program: the first, or the one of that name, in whatever namespace."""
    found = list(program.get("workflows", []))
    for namespace in program.get("namespaces", []):
        found += namespace.get("workflows", [])
    return next(node for node in found if not name or node["name"] == name)


def arg(name: str, value: Any) -> Ast:
    """An argument as the compiler emits it."""
    return {"name": name, "value": value}


def call(target: str, **values: Any) -> Ast:
    """A call with named arguments, without ids and type tags."""
    return {"target": target, "args": [arg(name, value) for name, value in values.items()]}


def step(name: str, target: str, **values: Any) -> Ast:
    """A step without an id."""
    return {"name": name, "call": call(target, **values)}


def giving(target: str, **values: Any) -> Ast:
    """A yield without an id."""
    return {"call": call(target, **values)}


def dollar(*path: str) -> Ast:
    """`$.a.b`"""
    return {"type": "InputRef", "path": list(path)}


def ref(*path: str) -> Ast:
    """`step.attribute`"""
    return {"type": "StepRef", "path": list(path)}


def plus(left: Any, right: Any) -> Ast:
    """`left + right`"""
    return {"type": "BinaryExpr", "operator": "+", "left": left, "right": right}
