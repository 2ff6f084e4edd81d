"""A directed acyclic graph of named nodes, and a tracker of one walk through it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from afl.kernel.errors import GraphError
from afl.kernel.near_names import near_name


class Dag:
    """Nodes and what each depends on; immutable, and checked when it is made."""

    __slots__ = ("_dependencies", "_dependents", "_order")

    def __init__(self, dependencies: Mapping[str, Iterable[str]]) -> None:
        """`dependencies` maps every node to the nodes it waits for; naming one twice is naming it once."""
        needs = {node: _names(node, names) for node, names in dependencies.items()}
        for node, names in needs.items():
            for name in names:
                if name not in needs:
                    raise GraphError(_unknown(f"{node!r} depends on {name!r}", name, needs))
        followers: dict[str, list[str]] = {node: [] for node in needs}
        for node, names in needs.items():
            for name in names:
                followers[name].append(node)
        self._dependencies = MappingProxyType(needs)
        self._dependents = MappingProxyType({node: tuple(names) for node, names in followers.items()})
        self._order = self._sorted()

    @property
    def nodes(self) -> tuple[str, ...]:
        """Every node, in the order it was given."""
        return tuple(self._dependencies)

    @property
    def order(self) -> tuple[str, ...]:
        """Every node after all it depends on; nodes that may swap keep the order they were given."""
        return self._order

    @property
    def roots(self) -> tuple[str, ...]:
        """The nodes that depend on nothing."""
        return tuple(node for node, names in self._dependencies.items() if not names)

    def dependencies(self, node: str) -> tuple[str, ...]:
        """What the node waits for, directly."""
        return self._dependencies[self._known(node)]

    def dependents(self, node: str) -> tuple[str, ...]:
        """What waits for the node, directly."""
        return self._dependents[self._known(node)]

    def __contains__(self, node: object) -> bool:
        return node in self._dependencies

    def __len__(self) -> int:
        return len(self._dependencies)

    def __repr__(self) -> str:
        return f"Dag({ {node: list(names) for node, names in self._dependencies.items()} })"

    def _known(self, node: str) -> str:
        if node not in self._dependencies:
            raise GraphError(_unknown(f"no node {node!r}", node, self._dependencies))
        return node

    def _sorted(self) -> tuple[str, ...]:
        waiting = {node: len(names) for node, names in self._dependencies.items()}
        free = deque(self.roots)
        order: list[str] = []
        while free:
            node = free.popleft()
            order.append(node)
            for follower in self._dependents[node]:
                waiting[follower] -= 1
                if not waiting[follower]:
                    free.append(follower)
        if len(order) < len(waiting):
            raise GraphError(f"dependencies form a cycle: {' -> '.join(next(cycles(self._dependencies)))}")
        return tuple(order)


def cycles(dependencies: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """Paths from a node over its dependencies back to itself, one for each dependency that closes a cycle.

    Without those dependencies there is no cycle left. Every name must be a node.
    """
    done: set[str] = set()
    for root in dependencies:
        path: dict[str, Iterator[str]] = {} if root in done else {root: iter(dependencies[root])}
        while path:
            node = next(reversed(path))
            follower = next(path[node], None)
            if follower is None:
                del path[node]
                done.add(node)
            elif follower in path:
                nodes = list(path)
                yield [*nodes[nodes.index(follower) :], follower]
            elif follower not in done:
                path[follower] = iter(dependencies[follower])


class NodeState(StrEnum):
    """Where a node of a walk stands; the last three are final."""

    PENDING = "pending"
    READY = "ready"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"

    @property
    def is_final(self) -> bool:
        return self in (NodeState.COMPLETED, NodeState.FAILED, NodeState.SKIPPED)


class Change(NamedTuple):
    """What one outcome did to other nodes."""

    ready: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


class Tracker:
    """One walk through a Dag: which nodes may start, and what each outcome means for the others.

    A node becomes ready once, when all its dependencies completed. A failure skips everything that depends on
    it and nothing else. Two kinds of nodes bend this:

    - `allow_failure`: when it fails its dependents go on; when it is skipped, so are they.
    - `always`: it runs once its dependencies ended, in whatever way, and no skip passes through it.

    The whole walk costs time in proportion to nodes plus dependencies.
    """

    def __init__(self, dag: Dag, *, allow_failure: Iterable[str] = (), always: Iterable[str] = ()) -> None:
        self._dag = dag
        self._allow_failure = frozenset(dag._known(node) for node in allow_failure)
        self._always = frozenset(dag._known(node) for node in always)
        self._states = dict.fromkeys(dag.nodes, NodeState.PENDING)
        self._waiting = {node: len(dag.dependencies(node)) for node in dag.nodes}
        self._ready: dict[str, None] = {}  # a dict is a queue from whose middle one can take
        self._open = len(dag)
        for node in dag.roots:
            self._make_ready(node)

    @property
    def ready(self) -> tuple[str, ...]:
        """The nodes that may start, oldest first."""
        return tuple(self._ready)

    @property
    def finished(self) -> bool:
        """Whether every node has ended."""
        return not self._open

    @property
    def succeeded(self) -> bool:
        """Whether every node has ended and none failed but those that are allowed to."""
        return self.finished and not any(
            state is NodeState.SKIPPED or (state is NodeState.FAILED and node not in self._allow_failure)
            for node, state in self._states.items()
        )

    def state(self, node: str) -> NodeState:
        return self._states[self._dag._known(node)]

    def states(self) -> dict[str, NodeState]:
        """The state of every node; a copy."""
        return dict(self._states)

    def take(self) -> str | None:
        """Start the node that has been ready longest; None when no node is ready."""
        node = next(iter(self._ready), None)
        if node is not None:
            self.start(node)
        return node

    def start(self, node: str) -> None:
        """A ready node begins to run."""
        self._expect(node, NodeState.READY, "start")
        del self._ready[node]
        self._states[node] = NodeState.RUNNING

    def complete(self, node: str) -> Change:
        """A running node ended well."""
        self._expect(node, NodeState.RUNNING, "complete")
        return self._end(node, NodeState.COMPLETED)

    def fail(self, node: str) -> Change:
        """A running node ended badly."""
        self._expect(node, NodeState.RUNNING, "fail")
        return self._end(node, NodeState.FAILED)

    def _end(self, node: str, state: NodeState) -> Change:
        ready: list[str] = []
        skipped: list[str] = []
        ended = deque([(node, state)])
        while ended:
            name, outcome = ended.popleft()
            self._states[name] = outcome
            self._open -= 1
            passes = outcome is NodeState.COMPLETED or (
                outcome is NodeState.FAILED and name in self._allow_failure
            )
            for follower in self._dag.dependents(name):
                self._waiting[follower] -= 1
                if self._states[follower] is not NodeState.PENDING:
                    continue  # skipped before by another of its dependencies
                if passes or follower in self._always:
                    if not self._waiting[follower]:
                        self._make_ready(follower)
                        ready.append(follower)
                else:
                    self._states[follower] = NodeState.SKIPPED
                    skipped.append(follower)
                    ended.append((follower, NodeState.SKIPPED))
        return Change(tuple(ready), tuple(skipped))

    def _make_ready(self, node: str) -> None:
        self._states[node] = NodeState.READY
        self._ready[node] = None

    def _expect(self, node: str, state: NodeState, verb: str) -> None:
        actual = self.state(node)
        if actual is not state:
            raise GraphError(f"cannot {verb} {node!r}: it is {actual}, and must be {state}")


def _names(node: str, names: Iterable[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise GraphError(f"the dependencies of {node!r} are the text {names!r}; expected a list of names")
    return tuple(dict.fromkeys(names))


def _unknown(problem: str, name: str, known: Iterable[str]) -> str:
    near = near_name(name, known)
    return f"{problem}, which does not exist" + (f"; did you mean {near!r}?" if near else "")
