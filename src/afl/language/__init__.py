"""AFL, the language: source text to a compiled program. Pure: no store, no network, no clock.

grammar.lark, builder, parser -> ast -> names, types, checks, validator -> emission, emitter.
`compile_source` does all of it.
"""

from afl.language.compiler import Compiled, compile_input, compile_source
from afl.language.diagnostics import (
    CompileError,
    Diagnostic,
    ValidationError,
    ValidationResult,
    render,
    render_all,
)
from afl.language.emitter import JSONEmitter, emit_dict, emit_json
from afl.language.names import Names, Symbol, prelude
from afl.language.parser import AFLParser, ParseError, parse
from afl.language.source import (
    CompilerInput,
    FileOrigin,
    MavenOrigin,
    MongoDBOrigin,
    SourceEntry,
    SourceOrigin,
    SourceRegistry,
)
from afl.language.validator import AFLValidator, validate

__all__ = [
    "AFLParser",
    "AFLValidator",
    "CompileError",
    "Compiled",
    "CompilerInput",
    "Diagnostic",
    "FileOrigin",
    "JSONEmitter",
    "MavenOrigin",
    "MongoDBOrigin",
    "Names",
    "ParseError",
    "SourceEntry",
    "SourceOrigin",
    "SourceRegistry",
    "Symbol",
    "ValidationError",
    "ValidationResult",
    "compile_input",
    "compile_source",
    "emit_dict",
    "emit_json",
    "parse",
    "prelude",
    "render",
    "render_all",
    "validate",
]
