"""Which process runs which tests, under pytest-xdist.

A file's tests run in one process, one after another: what its fixtures start is started once. The browser tests share
one browser and one system to look at, so they are one piece; those that ask models by the client libraries of their
providers are another, since to import these takes seconds. Properties, and the unit tests of no single package, take
seconds each: they go one by one.
(xdist's own groups, `--dist loadgroup`, need a private field of pytest's that version 9.2 no longer has.)
"""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadScopeScheduling

_BROWSER = "tests/browser/"
_CLIENTS = ("tests/unit/models/", "tests/unit/runtime/test_claude_agent_runner.py")
_SINGLE = ("tests/properties/", "tests/unit/test_")


class ByFile(LoadScopeScheduling):
    """Files are handed out in the order of the collection."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(_BROWSER):
            return _BROWSER
        if nodeid.startswith(_CLIENTS):
            return _CLIENTS[0]
        return nodeid if nodeid.startswith(_SINGLE) else nodeid.partition("::")[0]

    def _reschedule(self, node: Any) -> None:
        """Forget the files that a process is done with: xdist counts all that it was given after every test."""
        units = self.assigned_work[node]
        for name in [name for name, tests in units.items() if all(tests.values())]:
            del units[name]
        super()._reschedule(node)


def longest_first(nodeid: str) -> bool:
    """A key to sort by: the browser tests are the longest piece, and one that begins last would be waited for."""
    return not nodeid.startswith(_BROWSER)
