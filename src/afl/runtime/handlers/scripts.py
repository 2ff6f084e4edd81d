"""States that the seed documents name and in which nothing happens: code lives in agents, not in scripts."""

from __future__ import annotations

from afl.runtime.handlers.base import PassThroughHandler


class FacetScriptsBeginHandler(PassThroughHandler):
    """state.facet.scripts.Begin"""


class FacetScriptsEndHandler(PassThroughHandler):
    """state.facet.scripts.End"""


class StatementScriptsBeginHandler(PassThroughHandler):
    """state.statement.scripts.Begin"""


class StatementScriptsEndHandler(PassThroughHandler):
    """state.statement.scripts.End"""
