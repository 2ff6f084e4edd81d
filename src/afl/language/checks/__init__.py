"""The rules of the language, one file per subject; `afl.language.validator` runs them over a program.

context (reporting), signatures (what a facet takes and gives), scopes (what a name or `$` means in a block),
operators and expressions (types), calls, yields, blocks, uniqueness, declarations.
"""
