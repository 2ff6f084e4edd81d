"""A bridge: the connection to one kind of external system that runs tasks, under an id derived from the task.

No process holds such a task. Any host may start it there, any number of times: the id makes it one unit of work.
Any host that sees the result settles it, and the store takes the first. So any number of processes may host a
bridge, and any of them may die at any time.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from afl.kernel import codec
from afl.kernel.errors import AgentFlowError
from afl.runtime.entities import TaskDefinition
from afl.runtime.program.declaration import Declaration, Field
from afl.runtime.program.values import TypeSpec, type_text


class NotReady(
    AgentFlowError, hint="Start or repair the other side named in the text; the step continues by itself."
):
    """The external system cannot accept a task now; the start is retried until it can."""


class Refused(AgentFlowError, hint="Correct the workflow or the other side, then `afl retry RUN`."):
    """The external system will never accept a task; `kind` is the name of the error in the workflow."""

    def __init__(self, text: str, kind: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class ExternalTask:
    """A task for an external system. `id` is its id there, `to` names the agent, workflow or queue that runs it."""

    task: TaskDefinition
    id: str
    to: str
    facet: Declaration | None = None
    seconds_left: float | None = None  # until its timeout; None: no timeout
    seconds_to_wait: float = 0.0  # before this attempt starts

    @property
    def parameters(self) -> dict[str, Any]:
        return self.task.params

    @property
    def returns(self) -> tuple[Field, ...] | None:
        """The declared results; None: any."""
        return self.facet.returns if self.facet is not None else None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of an external task: a result, or an error with the name that the workflow knows it by."""

    id: str
    result: dict[str, Any] | None = None
    error: str = ""
    kind: str = ""


class Host(Protocol):
    """What a bridge needs of the service that hosts it."""

    async def find(self, external_id: str) -> ExternalTask | None:
        """The open external task of an id, None if it has ended; NotFoundError if this store never had it."""

    async def settle(self, outcome: Outcome) -> None:
        """Store the outcome and continue the step. A task that has ended stays as it is."""

    async def queued(self, external_id: str, reason: str) -> None:
        """Write to the log of the run why a started task is still queued there; empty: it is not any more."""

    def wake(self) -> None:
        """Poll everything soon."""


class Bridge(ABC):
    """A connection to one kind of external system. Every method may be called again after a failure, by any process."""

    kind: ClassVar[str]
    renews: ClassVar[bool] = (
        False  # whether tasks are started again at intervals, since the external system may lose some
    )

    @abstractmethod
    async def start(self, external: ExternalTask) -> None:
        """Start a task; starting it again has no effect. Raises NotReady or Refused."""

    @abstractmethod
    async def poll(self, externals: Sequence[ExternalTask]) -> list[Outcome]:
        """The outcomes of those that have ended."""

    @abstractmethod
    async def retain(self, externals: Sequence[ExternalTask]) -> None:
        """Forget every task but these, which are all the open ones of this kind."""

    @abstractmethod
    async def cancel(self, external_id: str, to: str) -> bool:
        """Cancel a task that nothing waits for; False if it is unknown there."""

    @abstractmethod
    async def close(self) -> None:
        """Close connections. The external work continues."""


BridgeFactory = Callable[[Host], "Bridge"]


_WHOLE = re.compile(r"[+-]?[0-9]{1,100}")
_TRUTHS = {"true": True, "false": False}


def field_descriptions(external: ExternalTask) -> dict[str, str] | None:
    """The declared results by name, each with its type and doc comment; None without a return clause."""
    if external.facet is None or external.returns is None:
        return None
    doc = external.facet.ast.get("doc") or {}
    said = {each["name"]: str(each.get("description") or "") for each in doc.get("returns") or []}
    return {
        field.name: f"{type_text(field.type)}; {said[field.name]}"
        if said.get(field.name)
        else type_text(field.type)
        for field in external.returns
    }


def typed_values(external: ExternalTask, texts: dict[str, str]) -> dict[str, Any]:
    """Text values as the types of the return clause; text that does not parse stays text, and validation rejects it."""
    kinds = {field.name: field.type for field in external.returns or ()}
    return {name: _read(text, kinds.get(name, "String")) for name, text in texts.items()}


def declared_values(external: ExternalTask, values: dict[str, Any]) -> dict[str, Any]:
    """The values that the return clause declares; all of them without a clause."""
    if external.returns is None:
        return values
    names = {field.name for field in external.returns}
    return {name: value for name, value in values.items() if name in names}


def _read(text: str, kind: TypeSpec) -> Any:
    plain = text.strip()
    if kind in ("String", "Any"):
        return text
    if kind in ("Long", "Int"):
        return int(plain) if _WHOLE.fullmatch(plain) else text
    if kind == "Boolean":
        return _TRUTHS.get(plain.lower(), text)
    value = codec.value_of(plain)
    return text if value == plain else value
