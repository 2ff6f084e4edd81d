"""What the reasons of `afl why` read: the store, its clock and its servers, each once."""

from __future__ import annotations

from functools import cached_property

from afl.kernel.clock import wall_ms
from afl.kernel.presence import Life
from afl.operations.run.attempts import AttemptView
from afl.operations.run.run_log import entries
from afl.operations.spans import clock
from afl.operations.work.workers import Server, servers
from afl.runtime.entities import LogDefinition, RunDefinition
from afl.runtime.errors import StepFailure
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program import paths
from afl.runtime.program.cache import ProgramCache
from afl.runtime.program.program import Program
from afl.runtime.types import WorkflowId


class DiagnosticSnapshot:
    """A cached view of a store, made for one question."""

    def __init__(self, store: PersistenceAPI) -> None:
        self.store = store
        self.now = store.now()
        self._ahead = wall_ms() - self.now
        self._runs: dict[str, RunDefinition | None] = {}
        self._programs = ProgramCache(store)

    @cached_property
    def servers(self) -> list[Server]:
        """Every server."""
        return servers(self.store)

    @property
    def has_live_server(self) -> bool:
        """Whether anybody is there to sweep."""
        return any(server.is_live for server in self.servers)

    @property
    def has_live_runner(self) -> bool:
        """Whether anybody is there to evaluate what is due."""
        return any(server.is_live and server.evaluates for server in self.servers)

    def run(self, workflow_id: str) -> RunDefinition | None:
        """A run, if there is one of that id."""
        if workflow_id not in self._runs:
            self._runs[workflow_id] = self.store.get_run(WorkflowId(workflow_id)) if workflow_id else None
        return self._runs[workflow_id]

    def program(self, run: RunDefinition) -> Program:
        """The program of a run."""
        return self._programs.load(run.program_hash)

    def clock(self, store_time: int) -> str:
        """A moment of the store's clock as the clock on the wall shows it."""
        return clock(store_time + self._ahead)

    def life(self, owner: str) -> Life:
        """What can be said about an owner's process."""
        return self.store.life(owner)

    def owner(self, owner: str) -> str:
        """An owner in words: its server's name, else its process."""
        server = self.server_of(owner)
        return server.title if server is not None else self.store.describe(owner)

    def server_of(self, owner: str) -> Server | None:
        """The server that an owner's process is."""
        return next((each for each in self.servers if each.owner == owner), None)

    def last_log(self, run_id: str, step_id: str) -> LogDefinition | None:
        """The last thing an agent logged for a step."""
        last = None
        for log in entries(self.store, run_id):
            last = log if log.step_id == step_id and not log.ends_attempt else last
        return last


def step_words(step_id: str, run: RunDefinition) -> str:
    """A step as people call it; the workflow's name for the root."""
    return paths.shown(step_id, WorkflowId(run.workflow_id)) or run.workflow_name


def iteration_words(step_id: str, run: RunDefinition, program: Program) -> str:
    """In which iteration of the outermost repeat a step stands, to follow its name."""
    around = list(program.repeats_around(paths.relative(step_id, WorkflowId(run.workflow_id))))
    return f", in iteration {around[-1][2]:,} of `{around[-1][1].loop}`" if around else ""


def failure_words(failure: StepFailure, attempt: AttemptView | None = None) -> str:
    """A failure on one line: step, place, cause, and the line of the handler that raised."""
    facet = f" = {failure.facet}" if failure.facet and failure.facet != failure.step else ""
    cause = f"{first_line(failure.message)} ({failure.error_type})"
    return f"step {failure.step}{facet}{line_words(failure)}: {cause}{raised_words(attempt)}"


def raised_words(attempt: AttemptView | None) -> str:
    """Which line of a handler raised, with a leading comma; nothing if that is not known."""
    return f", raised at {attempt.location}" if attempt is not None and attempt.location else ""


def line_words(failure: StepFailure) -> str:
    """Where it failed, with a leading space; nothing if that is not known."""
    if failure.line is None:
        return ""
    return f" at {failure.source}:{failure.line}" if failure.source else f" at line {failure.line}"


def first_line(text: str) -> str:
    """Enough of a message to recognize it."""
    line = text.strip().partition("\n")[0]
    return line if len(line) <= 200 else f"{line[:199]}…"
