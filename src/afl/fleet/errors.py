"""Errors of the fleet.

AgentFlowError
├── InputError
│   ├── ProtocolError        a frame that is no request
│   ├── RequestRefused       the principal understood the request and refuses it
│   └── WorkflowFileError    a file that is no workflow, with all its problems
├── PrincipalAway            the principal does not answer
├── PrincipalFailed          it answered with a server error, or with something that cannot be read
└── KeyFileError             keys that are missing or damaged
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from afl.kernel.errors import AgentFlowError, InputError
from afl.kernel.near_names import near_name


class ProtocolError(
    InputError, code="fleet-protocol-error", hint="Send a request as docs/fleet-protocol.md describes it."
):
    """A frame that is not a request; the text is sent to the peer."""


class RequestRefused(
    InputError, code="fleet-request-refused", hint="Correct what the text names: an id, a parameter, a state."
):
    """The principal refuses a valid request; the text is the principal's."""


class PrincipalAway(
    AgentFlowError,
    hint="Start `afl fleet principal`, or correct CDKTR_PRINCIPAL_HOST, its port and the keys.",
    status=503,
):
    """The principal does not answer."""


class PrincipalFailed(AgentFlowError, hint="Look at the principal's log.", status=503):
    """The principal could not do what was requested, or its answer cannot be read."""


class KeyFileError(
    AgentFlowError,
    hint="`afl fleet keys` creates them; docs/fleet.md says which file goes where.",
    status=503,
):
    """Keys are required and missing, or damaged."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem in a workflow file; line 0 is the file as a whole."""

    path: str
    line: int
    key: str
    message: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}: {self.key}: {self.message}" if self.key else f"{place}: {self.message}"


class WorkflowFileError(InputError, hint="Correct the file; `afl fleet check` shows all that is wrong."):
    """A file is not a workflow; `problems` lists everything that is wrong with it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


def suggestion(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known name, or all of them."""
    names = list(known)
    near = near_name(name, names)
    if near:
        return f"; did you mean {near!r}?"
    return f"; known are {', '.join(names)}" if names else ""
