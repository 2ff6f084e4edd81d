"""`afl show`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text
from rich.tree import Tree

from afl.cli.console import duration, output
from afl.cli.failures import failure_text, print_unknown_run
from afl.kernel.settings import load_settings
from afl.operations import runs
from afl.operations.run_tree import RunTree, StepNode
from afl.operations.run_tree import show as tree_of
from afl.runtime.errors import StepFailure

_MARKS = {
    "done": ("✓", "green"),
    "caught": ("!", "yellow"),
    "failed": ("✗", "red"),
    "waiting": ("…", "yellow"),
    "running": ("▸", "cyan"),
}


def show(
    run_id: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help="The run's id, or enough of its beginning; the latest."),
    ] = None,
    store: Annotated[
        str | None, typer.Option("--store", metavar="URL", help="Where it is (AFL_STORE).")
    ] = None,
) -> None:
    """Show a run as a tree of its steps: state, duration and error.

    Steps of a foreach are folded into one line with their number.

    [bold]Examples[/bold]

      afl show            the latest run
      afl show 01jd3v     by the beginning of its id
    """
    with runs.opened(load_settings({"store": store}), create=False) as opened:
        found = print_unknown_run(lambda: runs.find(opened, run_id))
        tree = tree_of(opened, found)
    output().print(render(tree))
    if found.error is not None:
        failure = StepFailure.from_dict(found.error)
        output().print(failure_text(found.workflow_id, found.workflow_name, failure))


def render(tree: RunTree) -> Tree:
    """The run as a Rich tree."""
    run = tree.run
    head = Text.assemble((run.workflow_id, "bold"), f"  {run.state}, {tree.steps:,} steps")
    head.append("\n").append(_label(tree.root, tree.seen))
    top = Tree(head, guide_style="dim")
    _grow(top, tree.root, tree.seen)
    return top


def _grow(branch: Tree, node: StepNode, now: int) -> None:
    for child in node.children:
        _grow(branch.add(_label(child, now)), child, now)


def _label(node: StepNode, now: int) -> Text:
    mark, colour = _MARKS[node.counts.state]
    text = Text.assemble((mark, colour), " ", (node.name, "bold"))
    if node.facet and node.facet != node.name:
        text.append(f" = {node.facet}", "dim")
    if node.counts.total > 1:
        text.append(f"  {_counts(node)}", colour)
    elif node.counts.state not in ("done", "caught"):
        text.append(f"  {node.counts.state}", colour)
    text.append(f"  {duration(node.duration_ms(now))}", "dim")
    if node.error is not None and not any(child.error is not None for child in node.children):
        text.append(f"  {node.error.message}", "red")
    elif node.caught:
        text.append(f"  caught: {node.caught}", "yellow")
    return text


def _counts(node: StepNode) -> str:
    words = ("done", "failed", "waiting", "running", "caught")
    parts = [f"{getattr(node.counts, word):,} {word}" for word in words if getattr(node.counts, word)]
    return f"×{node.counts.total:,}" + (
        f" ({', '.join(parts)})" if parts[1:] or node.counts.state != "done" else ""
    )
