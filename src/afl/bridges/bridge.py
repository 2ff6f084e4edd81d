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

import msgspec

from afl.kernel import codec
from afl.kernel.errors import AgentFlowError
from afl.runtime.entities import TaskDefinition
from afl.runtime.program.declaration import Declaration, Field
from afl.runtime.program.values import TypeSpec, type_text


class NotReady(
    AgentFlowError, hint="Start or repair the other side that is named; the step goes on by itself."
):
    """The other side cannot take an errand now; it is offered again until it can."""


class Refused(AgentFlowError, hint="Correct the workflow or the other side, then `afl retry RUN`."):
    """The other side will never take an errand; `kind` is the error's name in the workflow."""

    def __init__(self, text: str, kind: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Errand:
    """A task as the other side is given it. `id` is its name over there, `to` says who or what does it there."""

    task: TaskDefinition
    id: str
    to: str
    facet: Declaration | None = None
    seconds_left: float | None = None  # until its timeout; None: it has none
    seconds_to_wait: float = 0.0  # before this attempt begins

    @property
    def parameters(self) -> dict[str, Any]:
        return self.task.params

    @property
    def returns(self) -> tuple[Field, ...] | None:
        """What must come back; None: whatever it be."""
        return self.facet.returns if self.facet is not None else None


@dataclass(frozen=True, slots=True)
class Ending:
    """What came of an errand: a result, or else an error and the name a workflow knows it by."""

    id: str
    result: dict[str, Any] | None = None
    error: str = ""
    kind: str = ""


class Host(Protocol):
    """Who keeps a bridge open: what a bridge that hears of an ending by itself needs of it."""

    async def errand(self, errand_id: str) -> Errand | None:
        """The open errand of an id, None if it is over; NotFoundError if there never was one in this store."""

    async def settle(self, ending: Ending) -> None:
        """Let the step go on. What is over already stays as it is."""

    async def queued(self, errand_id: str, reason: str) -> None:
        """Tell in the run's log why nobody over there takes up an errand that is begun; empty: somebody does."""

    def wake(self) -> None:
        """Look at everything soon."""


class Bridge(ABC):
    """One kind of other side. Every method may be called again after a failure, by this process or another."""

    kind: ClassVar[str]
    renews: ClassVar[bool] = (
        False  # whether errands are begun again now and then, since the other side may lose some
    )

    @abstractmethod
    async def begin(self, errand: Errand) -> None:
        """Have it worked on; what is begun already stays one piece of work. NotReady, or Refused."""

    @abstractmethod
    async def look(self, errands: Sequence[Errand]) -> list[Ending]:
        """What has ended among these."""

    @abstractmethod
    async def keep(self, errands: Sequence[Errand]) -> None:
        """These are all the open ones of this kind; forget about others."""

    @abstractmethod
    async def cancel(self, errand_id: str, to: str) -> bool:
        """Nobody waits for it any more; False if it is not known there."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of connections. The work goes on."""


Opening = Callable[[Host], "Bridge"]


_WHOLE = re.compile(r"[+-]?[0-9]+")
_TRUTHS = {"true": True, "false": False}


def described(errand: Errand) -> dict[str, str] | None:
    """The fields that must come back, by name, each with its type and what the doc comment says; None: no clause."""
    if errand.facet is None or errand.returns is None:
        return None
    doc = errand.facet.ast.get("doc") or {}
    said = {each["name"]: str(each.get("description") or "") for each in doc.get("returns") or []}
    return {
        field.name: f"{type_text(field.type)}; {said[field.name]}"
        if said.get(field.name)
        else type_text(field.type)
        for field in errand.returns
    }


def typed(errand: Errand, texts: dict[str, str]) -> dict[str, Any]:
    """Values from a side that knows text alone. What is not as the type says stays text, and is refused as such."""
    kinds = {field.name: field.type for field in errand.returns or ()}
    return {name: _read(text, kinds.get(name, "String")) for name, text in texts.items()}


def chosen(errand: Errand, values: dict[str, Any]) -> dict[str, Any]:
    """Those of the values that the return clause names; all of them where there is none."""
    if errand.returns is None:
        return values
    names = {field.name for field in errand.returns}
    return {name: value for name, value in values.items() if name in names}


def _read(text: str, kind: TypeSpec) -> Any:
    plain = text.strip()
    if kind in ("String", "Any"):
        return text
    if kind in ("Long", "Int"):
        return int(plain) if _WHOLE.fullmatch(plain) else text
    if kind == "Boolean":
        return _TRUTHS.get(plain.lower(), text)
    try:
        return codec.decode(plain)
    except msgspec.DecodeError:
        return text
