"""A run as it stands, with all that is needed to show it: for those who have no store at hand."""

from __future__ import annotations

from dataclasses import dataclass, field

from afl.kernel.presence import Life
from afl.operations.parameters import LatestRun
from afl.operations.reason.snapshot import DiagnosticSnapshot
from afl.operations.run import run_store
from afl.operations.run.attempts import AttemptView, failed_attempts, run_attempts
from afl.operations.run.lineage import Lineage, lineage
from afl.operations.run.run_list import RunLine, run_line
from afl.operations.run.run_status import statuses
from afl.operations.run.run_tree import RunTree, StepNode, show
from afl.runtime.persistence import PersistenceAPI


@dataclass(frozen=True)
class Owner:
    """A process that works on tasks: in words, and whether it may still be at work."""

    title: str
    alive: bool


@dataclass(frozen=True)
class RunView:
    """A run on one line, its tree, and who works on it, by the names that the tree has.

    `attempts` are those of tasks of which one or more failed or was lost, in the order of their tasks; `cause` those
    that failed the run, in it or in a child run.
    """

    line: RunLine
    tree: RunTree
    owners: dict[str, Owner] = field(default_factory=dict)
    attempts: list[AttemptView] = field(default_factory=list)
    lineage: Lineage = field(default_factory=Lineage)
    cause: list[AttemptView] = field(default_factory=list)


def show_run(store: PersistenceAPI, run: LatestRun = "") -> RunView:
    """Show a run as a tree of its steps: state, duration, attempts, progress and error.

    Attempts that failed or were lost follow, one line each, with the traceback of the last, and the child runs.

    Steps of a foreach are folded into one line with their number.
    """
    found = run_store.find(store, run or None)
    tree = show(store, found)
    snapshot = DiagnosticSnapshot(store)
    owners = {
        each: Owner(snapshot.owner(each), snapshot.life(each) is not Life.DEAD)
        for each in sorted(_owners(tree.root))
    }
    attempts = run_attempts(store, found.workflow_id, snapshot.owner)
    line = run_line(found, statuses(store, [found])[found.workflow_id])
    cause = failed_attempts(store, found)
    return RunView(line, tree, owners, attempts, lineage(store, found), cause)


def _owners(node: StepNode) -> set[str]:
    own = set(node.work.owners) if node.work is not None else set()
    return own.union(*(_owners(child) for child in node.children))
