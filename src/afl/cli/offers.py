"""The words that `completion` offers, read from the store that the command would use.

A store that is not there is not made, and a server is not asked: it may take long to answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from afl.cli.clients import chosen
from afl.cli.completion import Offer
from afl.kernel.errors import CapabilityError
from afl.operations.run.run_store import opened
from afl.runtime.entities import RunDefinition
from afl.runtime.persistence import PersistenceAPI, RunFilter

_MOST = 50
_LATEST = 200  # runs whose workflows and task lists are offered


def run_ids(given: Mapping[str, Any], incomplete: str) -> Offer:
    """The latest runs whose id begins so."""
    with _store(given) as store:
        found = store.find_runs(RunFilter(prefix=incomplete, limit=_MOST))
    return [(run.workflow_id, f"{run.workflow_name}, {run.state}") for run in found]


def workflow_names(given: Mapping[str, Any], incomplete: str) -> Offer:
    """The workflows of the file that is named before; else those of the latest runs."""
    if given.get("file"):
        return [(name, "") for name in _in_file(str(given["file"]))]
    with _store(given) as store:
        return _words(run.workflow_name for run in _latest(store))


def task_lists(given: Mapping[str, Any], incomplete: str) -> Offer:
    """The task lists of the latest runs and of the servers."""
    with _store(given) as store:
        served = [server.task_list for server in store.get_all_servers()]
        return _words([*(run.task_list for run in _latest(store)), *served])


@contextmanager
def _store(given: Mapping[str, Any]) -> Iterator[PersistenceAPI]:
    settings = chosen(given.get("store"), given.get("server"))
    if settings.server:
        raise CapabilityError("a server is not asked for words")
    with opened(settings, create=False) as store:
        yield store


def _latest(store: PersistenceAPI) -> list[RunDefinition]:
    return store.find_runs(RunFilter(limit=_LATEST))


def _in_file(path: str) -> list[str]:
    from afl.operations.program.sources import examine, read_files, signatures  # noqa: PLC0415  the compiler
    from afl.runtime.program.program import Program  # noqa: PLC0415  as above

    compiled = examine(read_files([path])).compiled
    return (
        [] if compiled is None else [each.name for each in signatures(Program({"program": compiled.program}))]
    )


def _words(names: Any) -> Offer:
    return [(name, "") for name in sorted({each for each in names if each})]
