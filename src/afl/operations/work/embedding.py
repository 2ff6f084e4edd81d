"""Running a workflow from a program of one's own, in one call."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from afl.kernel.settings import load_settings
from afl.language.source import CompilerInput
from afl.operations.program.compilation import compile_sources
from afl.operations.program.sources import SourceError, from_text, read_files
from afl.operations.run.runs import (
    DEFAULT_CONCURRENCY,
    RunFailed,
    RunPaused,
    RunReport,
    choose_workflow,
    opened,
    start,
)
from afl.operations.work.hosting import hosted_for
from afl.operations.work.offers import offer_of
from afl.runtime.evaluator import ExecutionStatus
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program.inputs import check_inputs
from afl.runtime.task_handlers.capture import capturing_logging


def run(
    source: str | Path,
    inputs: Mapping[str, Any] | None = None,
    *,
    handlers: Any = None,
    workflow: str | None = None,
    store: str | PersistenceAPI | None = None,
    concurrency: int = DEFAULT_CONCURRENCY,
    capture_logging: bool = False,
) -> dict[str, Any]:
    """Compile and run a workflow in this process; its outputs.

    `source` is a text in AFL, or the path of a file that has one. `handlers` are functions by facet name, or a module
    (or other object) with marked functions; of a module @answers functions and agents of turns count as well.
    `capture_logging` stores what handlers say by `logging` in the log of the run, meanwhile.
    Raises CompileError, InputError, RunFailed or RunPaused; `RunFailed.traceback` shows which line of a handler failed.
    """
    compiled = compile_sources(_sources(source))
    program = choose_workflow(compiled, workflow)
    check_inputs(program, inputs or {})
    offer = offer_of(handlers)
    with ExitStack() as stack:
        if store is None or isinstance(store, str):
            settings = load_settings({"store": store})
            store = stack.enter_context(opened(settings))
        else:
            settings = load_settings()
        bridges = stack.enter_context(hosted_for(store, settings, offer, program))
        stack.enter_context(capturing_logging(capture_logging))
        report = start(
            store,
            program,
            inputs,
            handlers=offer.handlers,
            settings=settings,
            concurrency=concurrency,
            bridges=bridges,
        )
        return _outputs(report)


def _sources(source: str | Path) -> CompilerInput:
    """A text in AFL has a brace or is longer than a line; a path has neither."""
    if isinstance(source, str) and ("{" in source or "\n" in source):
        return from_text(source, "<string>")
    if isinstance(source, str) and not source.endswith(".afl") and not Path(source).exists():
        raise SourceError(
            f"{source[:80]!r} is neither AFL nor a file: there is no such path, and no block in braces"
        )
    return read_files([source])


def _outputs(report: RunReport) -> dict[str, Any]:
    if report.status == ExecutionStatus.COMPLETED:
        return report.outputs
    raise RunPaused(report) if report.status == ExecutionStatus.PAUSED else RunFailed(report)
