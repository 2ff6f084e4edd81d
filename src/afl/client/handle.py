# Generated from async_handle.py by `make docs`; change that file.
"""A run, as its client sees it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from afl.client.calls import Calls
from afl.client.outcome import outputs_of
from afl.kernel.errors import InputError
from afl.operations.reason.reasons import Reason
from afl.operations.reason.why import why
from afl.operations.run.compare import RunComparison, compare_runs
from afl.operations.run.control import Change, Retried, cancel, pause, retry, unpause
from afl.operations.run.fork import fork
from afl.operations.run.query import query
from afl.operations.run.rerun import rerun
from afl.operations.run.run_events import RunEvent, read_events
from afl.operations.run.run_list import RunLine
from afl.operations.run.run_log import LogLine, read_page
from afl.operations.run.run_tree import StepNode
from afl.operations.run.run_view import RunView, show_run
from afl.operations.run.signaling import send_signal
from afl.runtime.signals import Delivery


class RunHandle:
    """One run. Made by `start` and `get` of the client; any number may be used for the same run."""

    def __init__(self, calls: Calls, id: str, workflow: str) -> None:
        self._calls = calls
        self.id = id
        self.workflow = workflow

    def result(self, *, timeout: float | None = None) -> dict[str, Any]:
        """The outputs of the run, as soon as it is over.

        Raises RunFailed or RunCanceled if it did not complete, and TimeoutError after `timeout` seconds; the run
        itself continues then.
        """
        return outputs_of(self._calls.end_of(self.id, timeout))

    def status(self) -> RunLine:
        """The state of the run, its times, how many of its steps wait, its error."""
        return (self.show()).line

    def show(self) -> RunView:
        """The run with the tree of its steps, its failed attempts and its child runs."""
        return self._calls.call(show_run, self.id)

    def steps(self) -> list[StepNode]:
        """The steps of the workflow, those inside of them as their children."""
        return list((self.show()).tree.root.children)

    def why(self) -> Reason:
        """Why the run is stuck, or that it is not, and what to do about it."""
        return self._calls.call(why, self.id)

    def logs(
        self, *, follow: bool = False, level: str = "", grep: str = "", attempt: int = 0, step: str = ""
    ) -> Iterator[LogLine]:
        """What the run logged so far; with `follow` also what it logs from now on, until it is over.

        Of all entries, those of a `level` (info, warning, error) or a higher one, with a text in them, of attempts with
        that number, of a step and what is inside it.
        """
        position, wanted = 0, {"level": level, "grep": grep, "attempt": attempt, "step": step}
        while True:
            page = self._calls.next_page(read_page, self.id, position, wait=follow, **wanted)
            if page is None:
                continue
            for line in page.lines:
                yield line
            if page.is_empty and (page.over or not follow):
                return
            position = page.position

    def events(self, *, after: str = "") -> Iterator[RunEvent]:
        """What happens in the run: steps that start, wait, complete or fail, its log and progress, its end.

        From its beginning, or from the `position` of an event that was seen before, until the run is over. Reading
        on from a position misses nothing and repeats nothing.
        """
        while True:
            page = self._calls.next_page(read_events, self.id, after, wait=True)
            if page is None:
                continue
            for event in page.events:
                yield event
            if page.is_empty and page.over:
                return
            after = page.position

    def cancel(self) -> Change:
        """End the run, its tasks and the child runs that end with it."""
        return self._calls.call(cancel, self.id)

    def pause(self) -> Change:
        """Pause the run. Running tasks continue, and their results wait."""
        return self._calls.call(pause, self.id)

    def unpause(self) -> Change:
        """Continue the paused run."""
        return self._calls.call(unpause, self.id)

    def retry(self, step: str = "") -> Retried:
        """Retry failed steps of the whole run, or one step. Completed steps stay completed."""
        return self._calls.call(retry, f"{self.id}/{step}" if step else self.id)

    def rerun(self, inputs: Mapping[str, Any] | None = None, *, id: str = "") -> RunHandle:
        """Start the run again, as a new one, with its inputs; given inputs replace them."""
        started = self._calls.call(rerun, self.id, inputs, id=id)
        return type(self)(self._calls, started.run, started.workflow)

    def fork(
        self,
        step: str,
        *,
        inputs: Mapping[str, Any] | None = None,
        results: Mapping[str, Mapping[str, Any]] | None = None,
        source: str = "",
        id: str = "",
    ) -> RunHandle:
        """Start the run again from a step, as a new one that keeps the results of steps that do not depend on it.

        `inputs` are those of the step, `results` those of steps that are kept, `source` is another program.
        """
        forked = self._calls.call(fork, self.id, step, inputs=inputs, results=results, source=source, id=id)
        return type(self)(self._calls, forked.run, forked.workflow)

    def signal(self, name: str, value: Mapping[str, Any] | None = None, *, id: str = "") -> Delivery:
        """Deliver a signal; `id` names this delivery, so that a repeated one changes nothing."""
        return self._calls.call(send_signal, self.id, name, value, id=id)

    def compare(self, other: str = "") -> RunComparison:
        """This run compared with another one, differences first. Default: the run that it repeats."""
        return self._calls.call(compare_runs, self.id, other)

    def query(self, name: str) -> Any:
        """The value that the run has published under a name, or the results of a step."""
        if not name:
            raise InputError("query takes the name of a published value or of a step")
        return (self._calls.call(query, self.id, name)).values[name]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} of {self.workflow}>"
