"""From grammar rules to AST nodes: one method per rule or alias of grammar.lark.

The parser keeps every token, so a method finds its parts at the positions the grammar gives them. The files
follow the grammar: base (lists, places, problems), expressions, statements, declarations; each builds on the
one before.
"""

from afl.language.builder.declarations import ProgramBuilder

__all__ = ["ProgramBuilder"]
