"""The names that a compiled program declares, and what a short name means in a namespace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afl.kernel.errors import InputError
from afl.runtime.program.block import POLICIES

_GROUPS = ("facets", "eventFacets", "workflows", "schemas", "implicits", "declarations")


class DeclaredNames:
    """Declarations by full name, each with its namespace and its compiled JSON."""

    def __init__(self, program: Mapping[str, Any]) -> None:
        self.declared: dict[str, tuple[str, Mapping[str, Any]]] = {}
        self._facets: dict[str, Mapping[str, Any]] = {}
        self.implicits: list[tuple[str, Mapping[str, Any]]] = []  # calls, with their namespaces
        self._short: dict[str, list[str]] = {}
        self._uses: dict[str, list[str]] = {}
        self._index(program, "")

    def full_name(self, name: str, namespace: str = "", *, mixin: bool = False) -> str:
        """The full name of a facet as seen from a namespace: declared, else built in, else the name itself.

        A mixin is never a schema.
        """
        declared = self._facets if mixin else self.declared
        if name in declared and ("." in name or not namespace):
            return name
        local = f"{namespace}.{name}" if namespace else name
        if local in declared:
            return local
        imported = [
            f"{used}.{name}" for used in self._uses.get(namespace, []) if f"{used}.{name}" in declared
        ]
        if name in declared:
            imported.append(name)
        candidates = imported or [full for full in self._short.get(name, []) if full in declared]
        if len(candidates) > 1:
            raise InputError(f"'{name}' could be any of {', '.join(sorted(candidates))}; use the full name")
        if candidates:
            return candidates[0]
        return f"sys.{name}" if name in POLICIES else name

    def _index(self, node: Mapping[str, Any], namespace: str) -> None:
        seen: set[int] = set()
        for group in ("namespaces", *_GROUPS):
            for child in node.get(group) or []:
                if id(child) not in seen:
                    seen.add(id(child))
                    self._add(child, namespace)

    def _add(self, node: Mapping[str, Any], namespace: str) -> None:
        kind = node.get("type")
        if kind == "Namespace":
            inner = f"{namespace}.{node['name']}" if namespace else str(node["name"])
            self._uses.setdefault(inner, []).extend(node.get("uses") or [])
            self._index(node, inner)
        elif kind == "ImplicitDecl":
            self.implicits.append((namespace, node["call"]))
        elif kind in ("FacetDecl", "EventFacetDecl", "WorkflowDecl", "SchemaDecl"):
            full = f"{namespace}.{node['name']}" if namespace else str(node["name"])
            if full not in self.declared:
                self.declared[full] = namespace, node
                self._short.setdefault(str(node["name"]), []).append(full)
                if kind != "SchemaDecl":
                    self._facets[full] = node
