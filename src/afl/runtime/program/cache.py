"""Programs by what they were made from, by hash and by run; each is prepared once per process."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from afl.kernel import codec
from afl.kernel.errors import CorruptRow
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program.program import Program
from afl.runtime.types import WorkflowId

_log = logging.getLogger(__name__)

_KEPT = 256
_SHARED = 32  # few: these outlive the store


class ProgramCache:
    """Prepared programs of one store. `loaded` is called with each that is read from it."""

    def __init__(self, persistence: PersistenceAPI) -> None:
        self.loaded: Callable[[Program], None] = lambda program: None
        self._persistence = persistence
        self._lock = threading.Lock()
        self._by_hash: OrderedDict[str, Program] = OrderedDict()
        self._by_text: OrderedDict[bytes, Program] = OrderedDict()
        self._by_run: OrderedDict[str, str] = OrderedDict()
        self._stored: set[str] = set()

    def of(self, workflow: Mapping[str, Any] | str | None, program: Mapping[str, Any] | None) -> Program:
        """The program of a workflow node (or name) and the compiled program it belongs to."""
        key = codec.encode([workflow, program], what="the program", limit=1 << 40).encode()
        with self._lock:
            found = self._by_text.get(key)
        if found is None:
            found = Program(_compact(workflow, program))
            self._keep(self._by_text, key, found)
        return found

    def store(self, program: Program) -> None:
        """Make sure the store has the program."""
        if program.hash not in self._stored:
            self._persistence.save_program(program.hash, program.text)
            self._stored.add(program.hash)
            self._keep(self._by_hash, program.hash, program)

    def load(self, program_hash: str) -> Program:
        """The stored program of a hash."""
        with self._lock:
            found = self._by_hash.get(program_hash)
        if found is None:
            text = self._persistence.get_program(program_hash)
            if text is None:
                raise CorruptRow(f"the program {program_hash[:12]} of a run is missing from the store")
            try:
                found = _prepared(text)
            except Exception as error:  # whatever somebody has written there
                raise CorruptRow(
                    f"the program {program_hash[:12]} of a run cannot be read: {error}"
                ) from error
            self._keep(self._by_hash, program_hash, found)
            self.loaded(found)
        return found

    def of_run(self, workflow_id: WorkflowId) -> Program:
        """The program of a run. CorruptRow if one of the two is missing, or cannot be read."""
        with self._lock:
            program_hash = self._by_run.get(workflow_id)
        if program_hash is None:
            run = self._persistence.get_run(workflow_id)
            if run is None:
                raise CorruptRow(f"run {workflow_id} is missing from the store")
            program_hash = run.program_hash
            self._keep(self._by_run, workflow_id, program_hash)
        return self.load(program_hash)

    def remember(self, workflow_id: str, workflow: Mapping[str, Any]) -> None:
        """Have the program of a run at hand; a workflow that is not the run's own changes nothing."""
        run = self._persistence.get_run(WorkflowId(workflow_id))
        if run is not None and self.of_run(WorkflowId(workflow_id)).workflow.ast != workflow:
            _log.warning(
                "run %s continues with the program it was started with, not the one given", workflow_id
            )

    def _keep(self, cache: OrderedDict[Any, Any], key: Any, value: Any) -> None:
        with self._lock:
            cache[key] = value
            while len(cache) > _KEPT:
                cache.popitem(last=False)


@lru_cache(maxsize=_SHARED)
def _prepared(text: str) -> Program:
    """The program of a stored text. It never changes, so stores that are opened one after another share it."""
    return Program(codec.decode_map(text))


_GROUPS = ("namespaces", "facets", "eventFacets", "workflows", "implicits", "schemas")


def _once(node: Mapping[str, Any]) -> dict[str, Any]:
    """A program or namespace without the groups that its `declarations` repeat."""
    declared = node.get("declarations") or []
    known = {(child.get("type"), child.get("name")) for child in declared}
    kept = {
        key: value
        for key, value in node.items()
        if key not in _GROUPS
        or not known.issuperset((child.get("type"), child.get("name")) for child in value or [])
    }
    if declared:
        kept["declarations"] = [
            _once(child) if child.get("type") == "Namespace" else child for child in declared
        ]
    return kept


def _compact(workflow: Mapping[str, Any] | str | None, program: Mapping[str, Any] | None) -> dict[str, Any]:
    """What is stored: the program with each declaration once, and the workflow by name where the program has it."""
    compiled: dict[str, Any] = {"program": _once(program)} if program else {}
    if isinstance(workflow, Mapping) and program:
        index = Program({"program": program})
        for declaration in index.declarations.values():
            if declaration.ast == workflow:
                return {**compiled, "workflow": declaration.name}
    if workflow is not None:
        compiled["workflow"] = workflow
    return compiled
