"""The parser under its public name; see `afl.language.parser`."""

from afl.language.parser import AFLParser, ParseError, parse

__all__ = ["AFLParser", "ParseError", "parse"]
