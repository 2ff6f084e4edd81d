"""AFL, the language: source text to a compiled program. Pure: no store, no network, no clock.

grammar.lark, builder, parser -> ast -> names, types, checks, validator -> emission, emitter.
`compile_source` does all of it.

Every name is loaded when it is first asked for: whoever shows a diagnostic does not pay for the parser.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl.kernel.lazy_names import lazy_names

if TYPE_CHECKING:
    from afl.language.compiler import Compiled as Compiled
    from afl.language.compiler import compile_input as compile_input
    from afl.language.compiler import compile_source as compile_source
    from afl.language.diagnostics import CompileError as CompileError
    from afl.language.diagnostics import Diagnostic as Diagnostic
    from afl.language.diagnostics import ValidationError as ValidationError
    from afl.language.diagnostics import ValidationResult as ValidationResult
    from afl.language.diagnostics import render as render
    from afl.language.diagnostics import render_all as render_all
    from afl.language.emitter import JSONEmitter as JSONEmitter
    from afl.language.emitter import emit_dict as emit_dict
    from afl.language.emitter import emit_json as emit_json
    from afl.language.names import Names as Names
    from afl.language.names import Symbol as Symbol
    from afl.language.names import prelude as prelude
    from afl.language.parser import AFLParser as AFLParser
    from afl.language.parser import ParseError as ParseError
    from afl.language.parser import parse as parse
    from afl.language.source import CompilerInput as CompilerInput
    from afl.language.source import FileOrigin as FileOrigin
    from afl.language.source import MavenOrigin as MavenOrigin
    from afl.language.source import MongoDBOrigin as MongoDBOrigin
    from afl.language.source import SourceEntry as SourceEntry
    from afl.language.source import SourceOrigin as SourceOrigin
    from afl.language.source import SourceRegistry as SourceRegistry
    from afl.language.validator import AFLValidator as AFLValidator
    from afl.language.validator import validate as validate

if not TYPE_CHECKING:  # a type checker takes the imports above, and reports what is not there
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "compiler": "Compiled compile_input compile_source",
            "diagnostics": ("CompileError Diagnostic ValidationError ValidationResult render render_all"),
            "emitter": "JSONEmitter emit_dict emit_json",
            "names": "Names Symbol prelude",
            "parser": "AFLParser ParseError parse",
            "source": (
                "CompilerInput FileOrigin MavenOrigin MongoDBOrigin SourceEntry SourceOrigin SourceRegistry"
            ),
            "validator": "AFLValidator validate",
        },
    )
