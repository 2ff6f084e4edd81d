"""What `import afl` gives, and that it costs nothing until asked for."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import afl

COMPILER = [
    "AFLParser",
    "ParseError",
    "parse",
    "JSONEmitter",
    "emit_json",
    "emit_dict",
    "AFLValidator",
    "ValidationResult",
    "ValidationError",
    "validate",
    "SourceEntry",
    "CompilerInput",
    "SourceRegistry",
    "SourceOrigin",
    "FileOrigin",
    "MongoDBOrigin",
    "MavenOrigin",
    "SourceLoader",
    "AFLConfig",
    "MongoDBConfig",
    "load_config",
    "SourceLocation",
    "ASTNode",
    "TypeRef",
    "ArrayType",
    "Parameter",
    "Literal",
    "Reference",
    "ConcatExpr",
    "NamedArg",
    "MixinSig",
    "MixinCall",
    "CallExpr",
    "StepStmt",
    "YieldStmt",
    "ForeachClause",
    "Block",
    "AndThenBlock",
    "ReturnClause",
    "FacetSig",
    "FacetDecl",
    "EventFacetDecl",
    "WorkflowDecl",
    "ImplicitDecl",
    "UsesDecl",
    "SchemaField",
    "SchemaDecl",
    "Namespace",
    "Program",
]


def test_every_promised_name_is_there() -> None:
    promised = {*COMPILER, "handler", "redact", "run", "HandlerContext", "WorkCanceled", "__version__"}
    assert promised <= set(afl.__all__)
    assert promised <= set(dir(afl))
    assert [name for name in promised if getattr(afl, name) is None] == []


def test_every_name_comes_from_where_it_says() -> None:
    missing = [name for name in afl.__all__ if not hasattr(afl, name)]
    assert missing == []


def test_the_errors_of_run_are_there() -> None:
    named = re.findall(r"\w+Error|Run\w+|\w+Mismatch", str(afl.run.__doc__).partition("Raises")[2])
    assert {"HandlerMismatch", "InputError", "RunFailed"} <= set(named) <= set(afl.__all__)
    assert all(issubclass(getattr(afl, name), afl.AgentFlowError) for name in named)


def test_type_checkers_see_the_same_names() -> None:
    source = ast.parse(Path(str(afl.__file__)).read_text())
    imports = [
        (node.module, alias.name)
        for block in source.body
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    assert {name: module for module, name in imports} == afl._HOME_OF


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'afl' has no attribute 'nope'"):
        _ = afl.nope  # type: ignore[attr-defined]


def test_importing_loads_nothing_else() -> None:
    code = "import sys, afl; print(sorted(name for name in sys.modules if name.startswith('afl.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_event_loop_does_not_import_the_client() -> None:
    code = """
import asyncio, sys, threading, afl

class Watch:
    seen = []
    def find_spec(self, name, *rest):
        if name.startswith("afl.") and threading.current_thread() is threading.main_thread():
            self.seen.append(name)

async def main():
    opening = afl.connect("memory://")
    sys.meta_path.insert(0, Watch())
    async with opening as flow:
        await flow.list()

asyncio.run(main())
print(Watch.seen, "afl.operations.run.run_list" in sys.modules, "afl.turns.worker.worker" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] True False"


def test_help_loads_neither_runtime_nor_language() -> None:
    code = (
        "import sys; from afl.cli import main; main(['--help'])\n"
        "print([n for n in sys.modules if n.startswith(('afl.runtime', 'afl.language', 'afl.operations', 'lark'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("[]")


def test_the_reference_example() -> None:
    program = afl.parse("facet User(name: String)")
    assert afl.validate(program).is_valid
    assert afl.emit_dict(program)["facets"][0]["name"] == "User"
