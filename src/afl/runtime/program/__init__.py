"""Compiled programs: declarations, blocks, statements and their dependencies, expressions, policies. Pure."""
