"""Declarations, namespaces and the program as the plain dicts of the compiled program."""

from __future__ import annotations

from collections import Counter

from afl.language.ast.declarations import (
    DocComment,
    EventFacetDecl,
    FacetDecl,
    FacetLike,
    FacetSig,
    ImplicitDecl,
    Namespace,
    Parameter,
    Program,
    SchemaDecl,
    SchemaField,
    UsesDecl,
    WorkflowDecl,
)
from afl.language.emission.blocks import BlockEmitter, Place
from afl.language.emission.expressions import Json
from afl.language.names import EVENT_FACET, FACET, PRELUDE_NAMESPACE, WORKFLOW, Symbol
from afl.language.yield_targets import YieldScope

_KINDS: dict[type, str] = {FacetDecl: FACET, EventFacetDecl: EVENT_FACET, WorkflowDecl: WORKFLOW}


class DeclarationEmitter(BlockEmitter):
    """Whole programs."""

    def program(self, node: Program) -> Json:
        data: Json = {"type": "Program"}
        seen: Counter[str] = Counter()
        namespaces = []
        for block in node.namespaces:
            # The same namespace may have several blocks; each is a node of its own.
            namespaces.append(self.namespace(block, seen[block.name]))
            seen[block.name] += 1
        if namespaces:
            data["namespaces"] = namespaces
        self._members(data, node, "", namespaces)
        if self.built_in:
            built_in = self._built_in()
            data.setdefault("namespaces", []).append(built_in)
            data.setdefault("declarations", []).append(built_in)
        return self.identified(data, node, Place("program"))

    def _built_in(self) -> Json:
        """What the program uses of namespace `sys`, so that it can be run without the prelude."""
        nodes = [symbol.node for _, symbol in sorted(self.built_in.items())]
        used = Namespace(
            PRELUDE_NAMESPACE,
            event_facets=[node for node in nodes if isinstance(node, EventFacetDecl)],
            schemas=[node for node in nodes if isinstance(node, SchemaDecl)],
        )
        return DeclarationEmitter(self.names, lambda location: None).namespace(used)

    def namespace(self, node: Namespace, number: int = 0) -> Json:
        data: Json = {"type": "Namespace", "name": node.name}
        self._add_doc(data, node.doc)
        if node.uses:
            data["uses"] = [uses.name for uses in node.uses]
        self._members(data, node, node.name, [])
        return self.identified(data, node, Place(f"namespace/{node.name}/{number}"))

    def _members(self, data: Json, owner: Program | Namespace, namespace: str, before: list[Json]) -> None:
        """The split keys, and `declarations` with the very same dicts: everything in one list."""
        groups = {
            "facets": [self.facet(one, namespace) for one in owner.facets],
            "eventFacets": [self.facet(one, namespace) for one in owner.event_facets],
            "workflows": [self.facet(one, namespace) for one in owner.workflows],
            "implicits": [self.implicit(one, namespace) for one in owner.implicits],
            "schemas": [self.schema(one, namespace) for one in owner.schemas],
        }
        data.update({key: group for key, group in groups.items() if group})
        declarations = before + [one for group in groups.values() for one in group]
        if declarations:
            data["declarations"] = declarations

    # ---- declarations

    def facet(self, node: FacetLike, namespace: str) -> Json:
        kind = _KINDS[type(node)]
        full_name = f"{namespace}.{node.sig.name}" if namespace else node.sig.name
        yields = YieldScope(Symbol(full_name, namespace, kind, node), self.names)
        place = Place(f"{kind}/{full_name}", namespace, yields)
        data: Json = {"type": type(node).__name__, "name": node.sig.name}
        self._add_doc(data, node.doc)
        self._add_signature(data, node.sig, place)
        self.add_body(data, node.body, node.catch, place)
        return self.identified(data, node, place)

    def signature(self, node: FacetSig) -> Json:
        data: Json = {"type": "FacetSig", "name": node.name}
        place = Place(f"signature/{node.name}")
        self._add_signature(data, node, place)
        return self.identified(data, node, place)

    def _add_signature(self, data: Json, sig: FacetSig, place: Place) -> None:
        if sig.params:
            data["params"] = [self.parameter(param, place.namespace) for param in sig.params]
        if sig.returns is not None:
            data["returns"] = [self.parameter(param, place.namespace) for param in sig.returns.params]
        if sig.mixins:
            data["mixins"] = [self.mixin(mixin, place) for mixin in sig.mixins]

    def parameter(self, node: Parameter | SchemaField, namespace: str) -> Json:
        data: Json = {"name": node.name, "type": self.type_name(node.type, namespace)}
        if isinstance(node, Parameter) and node.default is not None:
            data["default"] = self.expressions.convert(node.default)
        return data

    def implicit(self, node: ImplicitDecl, namespace: str) -> Json:
        place = Place(f"implicit/{namespace}/{node.name}", namespace)
        data = {"type": "ImplicitDecl", "name": node.name, "call": self.call(node.call, place.into("call"))}
        return self.identified(data, node, place)

    def schema(self, node: SchemaDecl, namespace: str) -> Json:
        data: Json = {"type": "SchemaDecl", "name": node.name}
        self._add_doc(data, node.doc)
        data["fields"] = [self.parameter(one, namespace) for one in node.fields]
        return self.identified(data, node, Place(f"schema/{namespace}/{node.name}"))

    def uses(self, node: UsesDecl) -> Json:
        return self.identified({"type": "UsesDecl", "name": node.name}, node, Place(f"uses/{node.name}"))

    @staticmethod
    def _add_doc(data: Json, doc: DocComment | None) -> None:
        if doc is not None:
            data["doc"] = doc_comment(doc)


def doc_comment(doc: DocComment) -> Json:
    return {
        "description": doc.description,
        "params": [{"name": one.name, "description": one.description} for one in doc.params],
        "returns": [{"name": one.name, "description": one.description} for one in doc.returns],
    }
