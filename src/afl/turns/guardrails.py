"""Guardrails: checks on what an agent is asked, what it answers, and what it calls its tools with.

def no_secrets(text: str) -> str | None:
    return text.replace("hunter2", "***")

agent("guide", ..., guardrails=Guardrails(input=[no_secrets], tools=[only_small_amounts]))

A check is a plain function, sync or async. It returns None if there is nothing to say, another value to go on with in
its place, `Refuse` with the reason, or `Ask` to have a person decide. One that raises refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from afl.kernel.error_text import error_text
from afl.kernel.errors import InputError
from afl.kernel.unraisable import raised_in
from afl.kernel.user_thread import awaited, result_of
from afl.turns.tools.approval import ANYONE

Check = Callable[..., Any]
KINDS = ("input", "output", "tools")


@dataclass(frozen=True, slots=True)
class Refuse:
    """It does not go on like this. With `retry` a model whose output it is may try again, within its steps."""

    reason: str
    retry: bool = False


@dataclass(frozen=True, slots=True)
class Ask:
    """A person decides: the turn waits, and goes on with what was approved or edited; a rejection is a refusal.

    `seconds`: how long the question is open; None: as long as it takes. When nobody answers it is rejected. With
    `retry` a model whose output is rejected reads the reason and may try again, within its steps.
    """

    group: str = ANYONE
    reason: str = ""
    seconds: float | None = None
    retry: bool = False

    def __post_init__(self) -> None:
        if not self.group:
            raise InputError("Ask needs the name of a group")
        if self.seconds is not None and not self.seconds > 0:
            raise InputError(f"seconds is {self.seconds!r}; expected more than 0")


@dataclass(frozen=True, slots=True)
class Guardrails:
    """The checks of an agent, in their order. Those of tools take the tool's name and its arguments."""

    input: Sequence[Check] = ()
    output: Sequence[Check] = ()
    tools: Sequence[Check] = ()

    def __post_init__(self) -> None:
        for kind in KINDS:
            given = getattr(self, kind)
            if isinstance(given, str) or not isinstance(given, Sequence):
                raise InputError(f"{kind} of Guardrails is {given!r}; expected a list of functions")
            for each in given:
                check_name(each)

    @property
    def stored(self) -> dict[str, list[str]]:
        """As a profile has them: by name."""
        return {kind: [check_name(each) for each in getattr(self, kind)] for kind in KINDS}

    @property
    def checks(self) -> list[Check]:
        return [*self.input, *self.output, *self.tools]


@dataclass(frozen=True, slots=True)
class NamedChecks:
    """The names of an agent's checks, from its profile."""

    input: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What checks came to: the value to go on with, or the refusal, or what to ask a person before it goes on.

    `by` are those that changed it, refused or ask.
    """

    value: Any
    refusal: Refuse | None = None
    by: tuple[str, ...] = ()
    ask: Ask | None = None

    @property
    def is_changed(self) -> bool:
        return bool(self.by)


@dataclass
class CheckBox:
    """The checks of one process by their names."""

    by_name: dict[str, Check] = field(default_factory=dict)

    def add(self, checks: Iterable[Check]) -> None:
        """More of them; InputError when another one has a name."""
        for each in checks:
            name = check_name(each)
            if self.by_name.setdefault(name, each) is not each:
                raise InputError(f"two checks have the name {name!r}; give one of them another")

    async def run(self, names: Sequence[str], value: Any, *about: Any) -> Verdict:
        """The value after all checks, each of which gets what the one before made of it; `about` comes first.

        A check that this process does not have refuses: an agent is never run without its guardrails. The first that
        asks is what a person is asked, unless a later one refuses.
        """
        changed: list[str] = []
        ask: Ask | None = None
        for name in names:
            answer = await self._answer(name, value, about)
            if isinstance(answer, Refuse):
                return Verdict(value, answer, (name,))
            if isinstance(answer, Ask):
                ask = ask or answer
                changed.append(name)
            elif answer is not None and answer != value:
                value = answer
                changed.append(name)
        return Verdict(value, None, tuple(changed), ask)

    async def _answer(self, name: str, value: Any, about: tuple[Any, ...]) -> Any:
        check = self.by_name.get(name)
        if check is None:
            return Refuse(
                f"this worker has no check {name!r}; start one with the module that defines the agent"
            )
        try:
            return await awaited(result_of(check, (*about, value)))
        except Exception as error:
            raised = raised_in(error)
            return Refuse(f"the check {name} failed: {error_text(raised)}")


def check_name(check: Check) -> str:
    """The name of a check; InputError for what has none."""
    name = getattr(check, "__name__", "")
    if not callable(check) or not name or name == "<lambda>":
        raise InputError(f"{check!r} is not a check; expected a function with a name")
    return str(name)


def read_checks(data: Any, where: str) -> NamedChecks:
    """The checks that a profile names; InputError says what cannot be read."""
    if data is None:
        return NamedChecks()
    if not isinstance(data, Mapping) or not set(data) <= set(KINDS):
        raise InputError(f"{where}: guardrails is {data!r}; expected names by kind: {', '.join(KINDS)}")
    return NamedChecks(**{kind: tuple(map(str, data.get(kind) or ())) for kind in KINDS})
