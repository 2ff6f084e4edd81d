"""AST to compiled JSON: the public face of emission."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from afl.language.ast import blocks, declarations, expressions
from afl.language.ast.node import ASTNode, SourceLocation
from afl.language.emission.blocks import Place
from afl.language.emission.declarations import DeclarationEmitter, doc_comment
from afl.language.emission.expressions import Json
from afl.language.names import Names
from afl.language.source import FileOrigin, MavenOrigin, MongoDBOrigin, SourceOrigin, SourceRegistry


class JSONEmitter:
    """Emits programs, and any single node. `indent=None` gives one line."""

    def __init__(
        self,
        include_locations: bool = True,
        include_provenance: bool = False,
        source_registry: SourceRegistry | None = None,
        indent: int | None = 2,
    ) -> None:
        self.include_locations = include_locations
        self.include_provenance = include_provenance
        self.source_registry = source_registry
        self.indent = indent

    def emit(self, node: ASTNode) -> str:
        """The node as JSON text."""
        return json.dumps(self.emit_dict(node), indent=self.indent, ensure_ascii=False)

    def emit_dict(self, node: ASTNode) -> dict[str, Any]:
        """The node as a dict. Ids derive from paths, so emitting twice gives equal dicts."""
        converted: dict[str, Any] = self._convert(node)
        return converted

    def emit_program(self, program: declarations.Program, names: Names) -> dict[str, Any]:
        """The program, with names that were resolved before."""
        return DeclarationEmitter(names, self._location).program(program)

    def _convert(self, node: Any) -> Any:
        program = node if isinstance(node, declarations.Program) else declarations.Program()
        if isinstance(node, declarations.Namespace):
            program.namespaces.append(node)
        emitter = DeclarationEmitter(Names(program), self._location)
        if emitter.expressions.handles(node):
            return emitter.expressions.convert(node)
        for kind, convert in _CONVERTERS.items():
            if isinstance(node, kind):
                return convert(emitter, node)
        raise ValueError(f"Unknown node type: {type(node).__name__}")

    def _location(self, location: SourceLocation | None) -> Json | None:
        if location is None or not self.include_locations:
            return None
        data: Json = {"line": location.line, "column": location.column}
        if location.end_line is not None:
            data["endLine"] = location.end_line
        if location.end_column is not None:
            data["endColumn"] = location.end_column
        if self.include_provenance and location.source_id is not None:
            registry = self.source_registry
            origin = registry.get(location.source_id) if registry is not None else None
            data["sourceId"] = location.source_id
            data["provenance"] = self._provenance_to_dict(origin)
        return data

    @staticmethod
    def _provenance_to_dict(origin: SourceOrigin | None) -> Json:
        match origin:
            case FileOrigin(path):
                return {"type": "file", "path": path}
            case MongoDBOrigin(collection_id, display_name):
                return {"type": "mongodb", "collectionId": collection_id, "displayName": display_name}
            case MavenOrigin(group_id, artifact_id, version, classifier):
                data = {"type": "maven", "groupId": group_id, "artifactId": artifact_id, "version": version}
                return {**data, "classifier": classifier} if classifier else data
            case _:
                return {"type": "unknown"}


def emit_json(ast: ASTNode, include_locations: bool = True, indent: int | None = 2) -> str:
    """The compiled program as JSON text."""
    return JSONEmitter(include_locations=include_locations, indent=indent).emit(ast)


def emit_dict(ast: ASTNode, include_locations: bool = True) -> dict[str, Any]:
    """The compiled program as a dict."""
    return JSONEmitter(include_locations=include_locations).emit_dict(ast)


def _standalone_block(emitter: DeclarationEmitter, node: blocks.Block) -> Json:
    data: Json = {"type": "Block"}
    place = Place("block")
    emitter.add_block(data, node, place)
    if "yields" in data:
        data["yield"] = data.pop("yields")[0]
    return emitter.identified(data, node, place)


_CONVERTERS: dict[type, Callable[[DeclarationEmitter, Any], Any]] = {
    declarations.Program: lambda e, n: e.program(n),
    declarations.Namespace: lambda e, n: e.namespace(n),
    declarations.FacetDecl: lambda e, n: e.facet(n, ""),
    declarations.EventFacetDecl: lambda e, n: e.facet(n, ""),
    declarations.WorkflowDecl: lambda e, n: e.facet(n, ""),
    declarations.ImplicitDecl: lambda e, n: e.implicit(n, ""),
    declarations.SchemaDecl: lambda e, n: e.schema(n, ""),
    declarations.UsesDecl: lambda e, n: e.uses(n),
    declarations.FacetSig: lambda e, n: e.signature(n),
    declarations.Parameter: lambda e, n: e.parameter(n, ""),
    declarations.SchemaField: lambda e, n: e.parameter(n, ""),
    declarations.ReturnClause: lambda e, n: [e.parameter(param, "") for param in n.params],
    declarations.TypeRef: lambda e, n: e.type_name(n, ""),
    declarations.ArrayType: lambda e, n: e.type_name(n, ""),
    expressions.MixinSig: lambda e, n: e.mixin(n, Place("mixin")),
    expressions.MixinCall: lambda e, n: e.mixin(n, Place("mixin")),
    expressions.CallExpr: lambda e, n: e.call(n, Place("call")),
    expressions.NamedArg: lambda e, n: e.argument(n),
    blocks.StepStmt: lambda e, n: e.step(n, Place(f"step-{n.name}")),
    blocks.SysLogStmt: lambda e, n: e.statement(n, Place("sys")),
    blocks.SysAssertStmt: lambda e, n: e.statement(n, Place("sys")),
    blocks.YieldStmt: lambda e, n: e.yield_(n, Place("yield")),
    blocks.Block: _standalone_block,
    blocks.AndThenBlock: lambda e, n: e.and_then(n, Place("block-0")),
    blocks.ForeachClause: lambda e, n: e.foreach(n),
    blocks.RepeatClause: lambda e, n: e.repeat(n),
    blocks.WhenBlock: lambda e, n: e.when(n, Place("when")),
    blocks.WhenCase: lambda e, n: e.when_case(n, Place("case-0")),
    blocks.CatchClause: lambda e, n: e.catch(n, Place("catch")),
    blocks.PromptBlock: lambda e, n: e.prompt(n),
    declarations.DocComment: lambda e, n: doc_comment(n),
}
