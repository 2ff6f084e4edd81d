"""AST nodes to the plain dicts of the compiled program: expressions, blocks, declarations.

Key order is part of the format. `afl.language.emitter` is the public face.
"""
