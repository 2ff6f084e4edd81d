"""AFL, the language: source text to a compiled program. Pure: no store, no network, no clock.

grammar.lark, builder, parser -> ast -> names, types, checks, validator -> emission, emitter.
`compile_source` does all of it.

Every name is loaded when it is first asked for: whoever shows a diagnostic does not pay for the parser.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOMES = {
    "AFLParser": "parser",
    "AFLValidator": "validator",
    "CompileError": "diagnostics",
    "Compiled": "compiler",
    "CompilerInput": "source",
    "Diagnostic": "diagnostics",
    "FileOrigin": "source",
    "JSONEmitter": "emitter",
    "MavenOrigin": "source",
    "MongoDBOrigin": "source",
    "Names": "names",
    "ParseError": "parser",
    "SourceEntry": "source",
    "SourceOrigin": "source",
    "SourceRegistry": "source",
    "Symbol": "names",
    "ValidationError": "diagnostics",
    "ValidationResult": "diagnostics",
    "compile_input": "compiler",
    "compile_source": "compiler",
    "emit_dict": "emitter",
    "emit_json": "emitter",
    "parse": "parser",
    "prelude": "names",
    "render": "diagnostics",
    "render_all": "diagnostics",
    "validate": "validator",
}


if not TYPE_CHECKING:  # a type checker takes the imports above, and reports what is not there

    def __getattr__(name: str) -> Any:
        module = _HOMES.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{module}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
