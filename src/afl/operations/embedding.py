"""Running a workflow from a program of one's own, in one call."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from afl.kernel.settings import load_settings
from afl.language.source import CompilerInput
from afl.operations.compilation import compile_sources
from afl.operations.runs import (
    DEFAULT_CONCURRENCY,
    RunFailed,
    RunPaused,
    RunReport,
    choose_workflow,
    opened,
    start,
)
from afl.operations.sources import from_text, read_files
from afl.runtime.evaluator import ExecutionStatus
from afl.runtime.handler import Handlers
from afl.runtime.inputs import check_inputs
from afl.runtime.persistence import PersistenceAPI


def run(
    source: str | Path,
    inputs: Mapping[str, Any] | None = None,
    *,
    handlers: Any = None,
    workflow: str | None = None,
    store: str | PersistenceAPI | None = None,
    concurrency: int = DEFAULT_CONCURRENCY,
) -> dict[str, Any]:
    """Compile and run a workflow in this process; its outputs.

    `source` is a text in AFL, or the path of a file that has one. `handlers` are functions by facet name, or a module
    (or other object) with marked functions. Raises CompileError, InputError, RunFailed or RunPaused.
    """
    compiled = compile_sources(_sources(source))
    program = choose_workflow(compiled, workflow)
    check_inputs(program, inputs or {})
    agents = Handlers.of(handlers) if handlers is not None else Handlers()
    if store is None or isinstance(store, str):
        settings = load_settings({"store": store})
        with opened(settings) as own:
            return _outputs(
                start(own, program, inputs, handlers=agents, settings=settings, concurrency=concurrency)
            )
    return _outputs(start(store, program, inputs, handlers=agents, concurrency=concurrency))


def _sources(source: str | Path) -> CompilerInput:
    """A text in AFL has a brace or is longer than a line; a path has neither."""
    if isinstance(source, str) and ("{" in source or "\n" in source):
        return from_text(source, "<string>")
    return read_files([source])


def _outputs(report: RunReport) -> dict[str, Any]:
    if report.status == ExecutionStatus.COMPLETED:
        return report.outputs
    raise RunPaused(report) if report.status == ExecutionStatus.PAUSED else RunFailed(report)
