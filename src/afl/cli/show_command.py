"""`afl show`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from afl.cli.console import COLORS, Table, duration, output, shortened
from afl.cli.failures import failure_text
from afl.cli.operation_command import operation_command
from afl.operations.run.attempts import AttemptView, last_failure, short_location
from afl.operations.run.lineage import REMOVED, Lineage, ParentRun
from afl.operations.run.run_tree import RunTree, StepNode
from afl.operations.run.run_view import Owner, RunView, show_run
from afl.operations.run.step_work import Work
from afl.runtime.entities import RunnerState, TaskHold
from afl.runtime.errors import StepFailure
from afl.runtime.persistence.usage import Budget, UsageTotal

_ATTEMPTS = 50
_MARKS = {
    "completed": ("✓", "green"),
    "caught": ("!", "yellow"),
    "failed": ("✗", "red"),
    "waiting": ("…", "yellow"),
    "running": ("▸", "cyan"),
    "working": ("▸", "cyan"),
    "canceled": ("–", "dim"),
    "not begun": ("·", "dim"),
}


def plain(view: RunView) -> dict[str, Any]:
    """The run and its tree as plain data."""
    tree = view.tree
    return {
        **asdict(view.line),
        "outputs": tree.run.outputs,
        "steps": tree.steps,
        "usage": _plain_or_none(tree.usage),
        "budget": _plain_or_none(tree.budget),
        "tree": _node(tree.root, tree.seen),
        "attempts": [asdict(each) for each in view.attempts],
        "lineage": asdict(view.lineage),
    }


def _plain_or_none(value: UsageTotal | Budget | Work | None) -> dict[str, Any] | None:
    return asdict(value) if value is not None else None


def _node(node: StepNode, now: int) -> dict[str, Any]:
    data: dict[str, Any] = {
        "path": node.path,
        "name": node.name,
        "facet": node.facet,
        "state": node.counts.state,
        "counts": asdict(node.counts),
        "duration_ms": node.duration_ms(now),
        "error": node.error.to_dict() if node.error is not None else None,
        "caught": node.caught,
        "work": _plain_or_none(node.work),
        "usage": _plain_or_none(node.usage),
    }
    return {**data, "children": [_node(child, now) for child in node.children]}


@operation_command(
    show_run,
    run="RUN",
    data=plain,
    examples="""
        afl show            the latest run
        afl show 01jd3v     by a prefix of its id
        afl show --json | jq .state
    """,
)
def show(found: RunView) -> None:
    run = found.tree.run
    console = output()
    console.print(render(View(found.tree, found.owners, found.lineage.parent, found.line.status_words)))
    _print_origin(console, found.lineage)
    _print_children(console, found.lineage)
    print_attempts(console, found.attempts)
    if run.error is not None and run.state == RunnerState.FAILED:
        failure = StepFailure.from_dict(run.error)
        console.print()
        console.print(failure_text(run.workflow_id, run.workflow_name, failure, attempts=found.cause))
    else:
        last = last_failure(sorted(found.attempts, key=lambda each: each.ended))
        if last is not None and last.traceback:
            console.print(Text(f"\nAttempt {last.number} of {last.step} raised:\n{last.traceback}"))


def _print_origin(console: Console, lineage: Lineage) -> None:
    """The run that it repeats, and the runs that repeat it."""
    origin = lineage.origin
    if origin is not None:
        gone = f" ({origin.state})" if origin.state == REMOVED else ""
        how = f"forked from {origin.run} at {origin.step}" if origin.step else f"rerun of {origin.run}"
        console.print(Text(how + gone, "dim"))
    for each in lineage.copies:
        how = f"forked at {each.step}" if each.step else "started again"
        console.print(Text(f"{how}: {each.run} ({each.state})", "dim"))


def _print_children(console: Console, lineage: Lineage) -> None:
    """One line each; the newest, if there are many."""
    if not lineage.children:
        return
    states = ", ".join(f"{count:,} {state}" for state, count in sorted(lineage.counts.items()))
    console.print(Text(f"{lineage.total:,} child run{'' if lineage.total == 1 else 's'}: {states}", "dim"))
    table = Table("CHILD RUN", "STEP", "WORKFLOW", "STATE")
    for each in lineage.children:
        table.add(each.run, each.step, each.workflow, Text(each.state, COLORS.get(each.state, "")))
    table.print(console)


def print_attempts(console: Console, attempts: Sequence[AttemptView]) -> None:
    """One line each; the newest, if there are many."""
    if not attempts:
        return
    console.print()
    table = Table("STEP", "ATTEMPT", "OUTCOME", "QUEUED", "RAN", "WORKER", "ERROR", below=["WORKER", "ERROR"])
    for each in attempts[-_ATTEMPTS:]:
        place = f" ({short_location(each.location)})" if each.location else ""
        error = (
            f"{each.error_type}: {shortened(each.error)}{place}" if each.error_type else shortened(each.error)
        )
        table.add(
            each.step,
            str(each.number),
            Text(each.outcome, "red" if each.has_failed else COLORS.get(each.outcome, "")),
            duration(each.waited_ms) if each.started else "",
            duration(each.worked_ms) if each.started and each.ended else "",
            Text(each.worker, "dim"),
            Text(error, "red"),
        )
    if len(attempts) > _ATTEMPTS:
        console.print(Text(f"{len(attempts) - _ATTEMPTS:,} earlier attempts are in afl show --json", "dim"))
    table.print(console)


@dataclass(frozen=True)
class View:
    """A run to be shown, with those who work on it."""

    tree: RunTree
    owners: Mapping[str, Owner] = field(default_factory=dict)
    parent: ParentRun | None = None
    state: str = ""  # in words; empty: as stored

    def owner(self, name: str) -> str:
        """An owner in words."""
        return self.owners[name].title if name in self.owners else name

    def alive(self, name: str) -> bool:
        """Whether it may still be at work."""
        return name not in self.owners or self.owners[name].alive


def render(view: View) -> Tree:
    """The run as a Rich tree."""
    tree, run = view.tree, view.tree.run
    reason = f" ({run.reason})" if run.reason else ""
    head = Text.assemble(
        (run.workflow_id, "bold"), f"  {view.state or run.state}{reason}, {tree.steps:,} steps"
    )
    if view.parent is not None:
        head.append(f"\nchild of {view.parent.run} ({view.parent.state}), step {view.parent.step}", "dim")
    if tree.usage is not None or tree.budget is not None:
        head.append(f"\n{_spent(tree.usage, tree.budget)}", "dim")
    head.append("\n").append(_label(view, tree.root))
    top = Tree(head, guide_style="dim")
    _grow(top, view, tree.root)
    return top


def _grow(branch: Tree, view: View, node: StepNode) -> None:
    for child in node.children:
        _grow(branch.add(_label(view, child)), view, child)


def _state(view: View, node: StepNode) -> str:
    """The state as people see it: a step does not wait for an agent while one is at it."""
    state = node.counts.state
    if state in ("running", "waiting") and view.tree.run.state == RunnerState.CANCELED:
        return "canceled"
    owners = node.work.owners if node.work is not None and node.counts.total == 1 else []
    return "working" if any(view.alive(owner) for owner in owners) else state


def _label(view: View, node: StepNode) -> Text:
    state = _state(view, node)
    mark, color = _MARKS[state]
    text = Text.assemble((mark, color), " ", (node.name, "bold"))
    if node.facet and node.facet != node.name:
        text.append(f" = {node.facet}{' (child run)' if node.starts_runs else ''}", "dim")
    if node.counts.total > 1:
        text.append(f"  {_counts(node)}", color)
    elif state not in ("completed", "caught"):
        text.append(f"  {state}", color)
    text.append(f"  {duration(node.duration_ms(view.tree.seen))}", "dim")
    if node.work is not None:
        text.append(_work(node.work, view))
    if node.usage is not None:
        text.append(f"  {_usage(node.usage)}", "dim")
    if node.error is not None and not any(child.error is not None for child in node.children):
        text.append(f"  {node.error.text}", "red")
    elif node.caught:
        text.append(f"  caught: {node.caught}", "yellow")
    return text


def _counts(node: StepNode) -> str:
    words = ("completed", "failed", "waiting", "running", "caught")
    parts = [f"{getattr(node.counts, word):,} {word}" for word in words if getattr(node.counts, word)]
    return f"×{node.counts.total:,}" + (
        f" ({', '.join(parts)})" if parts[1:] or node.counts.state != "completed" else ""
    )


def _elsewhere(via: str) -> str:
    kind, _, name = via.partition(":")
    words = {"human": f"asked: {name}", "signal": f"signal: {name}"}
    return words.get(kind, f"with: {kind} {name}")


def _work(work: Work, view: View) -> Text:
    """Who works on it, how far that is, and what went wrong on the way."""
    text = Text()
    waits = {
        "sleeps" if hold == TaskHold.TIMER else f"held: {hold}": count
        for hold, count in work.held.items()
        if hold != TaskHold.ELSEWHERE
    }
    waits |= {_elsewhere(via): count for via, count in work.via.items()}
    for why, count in waits.items():
        text.append(f"  {why}" + (f" ×{count:,}" if count > 1 else ""), "yellow")
    if work.owners:
        others = f" and {len(work.owners) - 1} more" if len(work.owners) > 1 else ""
        died = "" if view.alive(work.owners[0]) else ", which died"
        text.append(f"  with {view.owner(work.owners[0])}{died}{others}", "yellow" if died else "cyan")
    if work.message:
        text.append(f"  {shortened(work.message)}", "cyan" if work.progress is not None else "dim")
    if work.repeated:
        told = [(work.deaths, "died"), (work.expiries, "expired"), (work.failures, "failed")]
        causes = ", ".join(f"{count:,} {word}" for count, word in told if count)
        text.append(f"  {work.attempts:,} attempts" + (f" ({causes})" if causes else ""), "yellow")
    return text


def _spent(usage: UsageTotal | None, budget: Budget | None) -> str:
    """What models used in the run, and of how much."""
    text = _usage(usage or UsageTotal())
    if budget is None:
        return text
    limits = [f"${budget.usd:.2f}"] if budget.usd is not None else []
    limits += [f"{budget.tokens:,} tokens"] if budget.tokens is not None else []
    return f"{text}; budget {' and '.join(limits)}"


def _usage(usage: UsageTotal) -> str:
    calls = f"{usage.calls:,} call{'' if usage.calls == 1 else 's'}"
    unpriced = f" and {usage.unpriced:,} of unknown price" if usage.unpriced else ""
    return f"{calls} of models, {usage.usage.total_tokens:,} tokens, ${usage.cost_usd:.4f}{unpriced}"
