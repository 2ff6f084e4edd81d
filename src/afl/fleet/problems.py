"""What is wrong with a workflow file: where, which key, and what was expected."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from afl.kernel.errors import InputError
from afl.kernel.near_names import near_name


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in one file; line 0 is the file as a whole."""

    path: str
    line: int
    key: str
    message: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}: {self.key}: {self.message}" if self.key else f"{place}: {self.message}"


class WorkflowFileError(InputError, hint="Correct the file; `afl fleet check` shows all that is wrong."):
    """A file is no workflow; `problems` has all that is wrong with it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


def suggestion(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the near one, or all there are."""
    names = list(known)
    near = near_name(name, names)
    if near:
        return f"; did you mean {near!r}?"
    return f"; known are {', '.join(names)}" if names else ""
