"""Reading compiled programs for the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from support.model_values import Json

Path = tuple[str, ...]
Owners = tuple[frozenset[str], ...]


def shown(path: Path) -> str:
    """A path as people read it."""
    text = ""
    for segment in path:
        text += segment if segment.startswith("[") or not text else f".{segment}"
    return text


def names_in(node: Any) -> Iterator[str]:
    """First names of all step references below a node."""
    if isinstance(node, list):
        for each in node:
            yield from names_in(each)
    elif isinstance(node, dict):
        if node.get("type") == "StepRef":
            yield node["path"][0]
        elif node.get("type") == "Comprehension":
            yield from names_in(node["iterable"])
            inner = names_in([node["element"], node.get("condition")])
            yield from (name for name in inner if name != node["variable"])
        else:
            yield from names_in(list(node.values()))


def yielded_names(node: Any) -> Iterator[str]:
    """The names that the yields below a node give."""
    if isinstance(node, list):
        for each in node:
            yield from yielded_names(each)
    elif isinstance(node, dict):
        if node.get("type") == "YieldStmt":
            yield from (arg["name"] for arg in node["call"].get("args", []))
        yield from yielded_names(list(node.values()))


def without_bodies(node: Json) -> Json:
    return {key: value for key, value in node.items() if key not in ("body", "catch")}


def free_names(block: Json) -> set[str]:
    """Names that a block takes from around it."""
    free: set[str] = set()
    if "when" in block:
        for case in block["when"]["cases"]:
            free |= set(names_in(case.get("condition"))) | free_names(case)
        return free
    steps = block.get("steps", [])
    inside = {each["name"] for each in steps if each["type"] == "StepStmt"}
    for each in steps:
        free |= set(names_in(without_bodies(each)))
        inner = [*_listed(each.get("body")), *_listed(each.get("catch"))]
        for body in inner:
            free |= free_names(body) - {each["name"]}
    free |= set(names_in([block.get("yield"), block.get("yields")]))
    free -= inside
    if "foreach" in block:
        free -= {block["foreach"]["variable"]}
        free |= set(names_in([block["foreach"]["iterable"], block["foreach"].get("limit")]))
    if "repeat" in block:
        free |= set(names_in([block["repeat"]["until"], block["repeat"].get("limit")]))
        free -= {block["repeat"]["variable"]}
    return free


def _listed(body: Any) -> list[Json]:
    return body if isinstance(body, list) else [] if body is None else [body]


def bodies_of(declared: Json, statement: Json | None) -> tuple[list[Json], bool]:
    """The blocks of a step, and whether they stand where the step does; its own win over its facet's."""
    inline = statement is not None and "body" in statement
    return _listed(statement["body"] if statement is not None and inline else declared.get("body")), inline


def policy(call: Json, name: str) -> Json | None:
    """The mixin of a call or signature that is this policy."""
    return next((mixin for mixin in call.get("mixins", []) if mixin["target"] == name), None)


def as_child_run(declared: Json) -> Json:
    """What a step sees of a workflow that is a run of its own: what goes in, and what comes out."""
    return {"type": "ChildRun", "params": declared.get("params", []), "returns": declared.get("returns", [])}


def owners_of(name: str, declared: Json, statement: Json | None) -> Owners:
    """The names a yield may give, innermost owner first."""
    if statement is None or not ("body" in statement or "catch" in statement):
        mixins = declared.get("mixins", [])
        return (_names(name, mixins),)
    return (_names(name, statement["call"].get("mixins", [])), *statement.get("owners", ()))


def _names(name: str, mixins: list[Json]) -> frozenset[str]:
    return frozenset({name, *(m["target"] for m in mixins), *(m["alias"] for m in mixins if "alias" in m)})


def declarations(node: Mapping[str, Any], namespace: str) -> Iterator[tuple[str, Json]]:
    for each in node.get("namespaces", []):
        yield from declarations(each, f"{each['name']}.")
    for group in ("facets", "eventFacets", "workflows", "schemas"):
        for each in node.get(group, []):
            yield f"{namespace}{each['name']}", each


def implicits(node: Mapping[str, Any]) -> Iterator[Json]:
    for each in node.get("namespaces", []):
        yield from implicits(each)
    for each in node.get("implicits", []):
        yield each["call"]
