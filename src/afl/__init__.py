"""AgentFlow: a durable runtime for agents.

The high-level API is `connect`, `run` and `handler`; the compiler's is `parse`, `validate`, `emit_dict`, `emit_json`
and the AST nodes. Everything is loaded when it is first asked for, so that `import afl` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from afl.ast import AndThenBlock as AndThenBlock
    from afl.ast import ArrayLiteral as ArrayLiteral
    from afl.ast import ArrayType as ArrayType
    from afl.ast import ASTNode as ASTNode
    from afl.ast import BinaryExpr as BinaryExpr
    from afl.ast import Block as Block
    from afl.ast import CallExpr as CallExpr
    from afl.ast import CatchClause as CatchClause
    from afl.ast import ConcatExpr as ConcatExpr
    from afl.ast import DocComment as DocComment
    from afl.ast import DocEntry as DocEntry
    from afl.ast import EventFacetDecl as EventFacetDecl
    from afl.ast import FacetDecl as FacetDecl
    from afl.ast import FacetSig as FacetSig
    from afl.ast import ForeachClause as ForeachClause
    from afl.ast import ImplicitDecl as ImplicitDecl
    from afl.ast import IndexExpr as IndexExpr
    from afl.ast import Literal as Literal
    from afl.ast import MapEntry as MapEntry
    from afl.ast import MapLiteral as MapLiteral
    from afl.ast import MixinCall as MixinCall
    from afl.ast import MixinSig as MixinSig
    from afl.ast import NamedArg as NamedArg
    from afl.ast import Namespace as Namespace
    from afl.ast import Parameter as Parameter
    from afl.ast import Program as Program
    from afl.ast import PromptBlock as PromptBlock
    from afl.ast import Reference as Reference
    from afl.ast import ReturnClause as ReturnClause
    from afl.ast import SchemaDecl as SchemaDecl
    from afl.ast import SchemaField as SchemaField
    from afl.ast import SourceLocation as SourceLocation
    from afl.ast import StepStmt as StepStmt
    from afl.ast import SysAssertStmt as SysAssertStmt
    from afl.ast import SysLogStmt as SysLogStmt
    from afl.ast import TypeRef as TypeRef
    from afl.ast import UnaryExpr as UnaryExpr
    from afl.ast import UsesDecl as UsesDecl
    from afl.ast import WhenBlock as WhenBlock
    from afl.ast import WhenCase as WhenCase
    from afl.ast import WorkflowDecl as WorkflowDecl
    from afl.ast import YieldStmt as YieldStmt
    from afl.client.async_client import AsyncClient as AsyncClient
    from afl.client.async_handle import AsyncRunHandle as AsyncRunHandle
    from afl.client.client import Client as Client
    from afl.client.connection import connect as connect
    from afl.client.handle import RunHandle as RunHandle
    from afl.client.outcome import RunCanceled as RunCanceled
    from afl.config import AFLConfig as AFLConfig
    from afl.config import MongoDBConfig as MongoDBConfig
    from afl.config import load_config as load_config
    from afl.emitter import JSONEmitter as JSONEmitter
    from afl.emitter import emit_dict as emit_dict
    from afl.emitter import emit_json as emit_json
    from afl.kernel.errors import AgentFlowError as AgentFlowError
    from afl.kernel.errors import InputError as InputError
    from afl.kernel.errors import NotFoundError as NotFoundError
    from afl.kernel.errors import StateError as StateError
    from afl.kernel.errors import StoreUnavailable as StoreUnavailable
    from afl.kernel.redaction import redact as redact
    from afl.language.diagnostics import CompileError as CompileError
    from afl.loader import SourceLoader as SourceLoader
    from afl.operations.program.submission import RunExists as RunExists
    from afl.operations.run.run_events import RunEvent as RunEvent
    from afl.operations.run.runs import RunFailed as RunFailed
    from afl.operations.run.runs import RunPaused as RunPaused
    from afl.operations.work.hosting import run as run
    from afl.parser import AFLParser as AFLParser
    from afl.parser import ParseError as ParseError
    from afl.parser import parse as parse
    from afl.runtime.errors import WorkCanceled as WorkCanceled
    from afl.runtime.task_handlers.handler import HandlerContext as HandlerContext
    from afl.runtime.task_handlers.handler import handler as handler
    from afl.runtime.task_handlers.signatures import HandlerMismatch as HandlerMismatch
    from afl.source import CompilerInput as CompilerInput
    from afl.source import FileOrigin as FileOrigin
    from afl.source import MavenOrigin as MavenOrigin
    from afl.source import MongoDBOrigin as MongoDBOrigin
    from afl.source import SourceEntry as SourceEntry
    from afl.source import SourceOrigin as SourceOrigin
    from afl.source import SourceRegistry as SourceRegistry
    from afl.validator import AFLValidator as AFLValidator
    from afl.validator import ValidationError as ValidationError
    from afl.validator import ValidationResult as ValidationResult
    from afl.validator import validate as validate

__version__ = "0.1.0"

_HOMES = {
    "afl.ast": (
        "ASTNode AndThenBlock ArrayLiteral ArrayType BinaryExpr Block CallExpr CatchClause "
        "ConcatExpr DocComment DocEntry EventFacetDecl FacetDecl FacetSig ForeachClause "
        "ImplicitDecl IndexExpr Literal MapEntry MapLiteral MixinCall MixinSig NamedArg Namespace "
        "Parameter Program PromptBlock Reference ReturnClause SchemaDecl SchemaField SourceLocation "
        "StepStmt SysAssertStmt SysLogStmt TypeRef UnaryExpr UsesDecl WhenBlock WhenCase "
        "WorkflowDecl YieldStmt "
    ),
    "afl.client.async_client": "AsyncClient",
    "afl.client.async_handle": "AsyncRunHandle",
    "afl.client.client": "Client",
    "afl.client.connection": "connect",
    "afl.client.handle": "RunHandle",
    "afl.client.outcome": "RunCanceled",
    "afl.config": "AFLConfig MongoDBConfig load_config",
    "afl.emitter": "JSONEmitter emit_dict emit_json",
    "afl.loader": "SourceLoader",
    "afl.parser": "AFLParser ParseError parse",
    "afl.source": "CompilerInput FileOrigin MavenOrigin MongoDBOrigin SourceEntry SourceOrigin SourceRegistry",
    "afl.validator": "AFLValidator ValidationError ValidationResult validate",
    "afl.kernel.errors": "AgentFlowError InputError NotFoundError StateError StoreUnavailable",
    "afl.kernel.redaction": "redact",
    "afl.language.diagnostics": "CompileError",
    "afl.operations.program.submission": "RunExists",
    "afl.operations.run.run_events": "RunEvent",
    "afl.operations.work.hosting": "run",
    "afl.operations.run.runs": "RunFailed RunPaused",
    "afl.runtime.errors": "WorkCanceled",
    "afl.runtime.task_handlers.handler": "HandlerContext handler",
    "afl.runtime.task_handlers.signatures": "HandlerMismatch",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}
__all__ = ["__version__", *_HOME_OF]  # noqa: PLE0604  names of the table above


if not TYPE_CHECKING:  # a type checker takes the imports above, and reports what is not there

    def __getattr__(name: str) -> Any:
        module = _HOME_OF.get(name)
        if module is None:
            raise AttributeError(f"module 'afl' has no attribute {name!r}")
        value = getattr(importlib.import_module(module), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
