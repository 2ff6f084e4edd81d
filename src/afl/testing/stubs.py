"""Stub handlers: they answer as a test says, and know what they were called with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from afl.client.client import Client
from afl.client.source import Source
from afl.kernel.errors import InputError
from afl.kernel.near_names import near_name
from afl.runtime.entities import params_of
from afl.runtime.task_handlers.handler import Handler, Handlers
from afl.runtime.task_handlers.handler_context import HandlerContext

Answer = Any
"""What a stub does when it is called: a mapping is returned, a function is called as a handler, `raises(...)` raises;
a list has one of these for each call in turn, and its last for all that follow."""


@dataclass(frozen=True)
class Raises:
    """An answer that is an exception; made by `raises`."""

    error: BaseException


def raises(error: BaseException) -> Raises:
    """A stub's answer: it raises this exception."""
    if not isinstance(error, BaseException):
        raise InputError(f"raises takes an exception, such as TimeoutError('no answer'); this is {error!r}")
    return Raises(error)


@dataclass(frozen=True)
class Call:
    """A call of a stub: what it was given, in which attempt, and the key that all attempts of a step share."""

    facet: str
    values: dict[str, Any]
    attempt: int
    idempotency_key: str


class Stubs:
    """Stub handlers by facet name, for the `flow` of a test."""

    def __init__(self, flow: Client, answers: Mapping[str, Answer]) -> None:
        self._flow = flow
        self._recorded: list[Call] = []
        self._guard = threading.Lock()
        self.handlers = Handlers(
            _Stub(facet, _in_turn(facet, answer), self._record) for facet, answer in answers.items()
        )

    def run(
        self,
        source: Source,
        workflow: str | None = None,
        *,
        inputs: Mapping[str, Any] | None = None,
        timeout: float = 60,
        **values: Any,
    ) -> dict[str, Any]:
        """Run a workflow with these stubs as its handlers, and return its outputs; RunFailed if it fails.

        The source and the inputs are those of `flow.start`. TimeoutError if it takes longer than `timeout` seconds.
        """
        with self._flow.worker(self.handlers):
            return self._flow.run(source, workflow, inputs=inputs, timeout=timeout, **values)

    def calls(self, facet: str) -> list[dict[str, Any]]:
        """What the stub of a facet was called with, each time; InputError if there is no such stub."""
        return [call.values for call in self.recorded(facet)]

    def recorded(self, facet: str = "") -> list[Call]:
        """The calls of one stub, or of all in their order, with the attempts and keys."""
        if facet and facet not in self.handlers.names:
            close = near_name(facet, self.handlers.names)
            raise InputError(f"there is no stub for {facet}" + (f"; did you mean {close}?" if close else ""))
        with self._guard:
            return [call for call in self._recorded if facet in ("", call.facet)]

    def _record(self, call: Call) -> int:
        """Remember a call; how many of this stub there were before."""
        with self._guard:
            before = sum(each.facet == call.facet for each in self._recorded)
            self._recorded.append(call)
            return before


class _Stub:
    """The handler of one facet."""

    def __init__(self, facet: str, answers: Sequence[Answer], record: Callable[[Call], int]) -> None:
        self.facet = facet
        self._answers = answers
        self._record = record

    def __call__(self, payload: Mapping[str, Any], context: HandlerContext) -> Any:
        key = context.step_id or context.task_id  # not by its name: a crash matrix sees who asks for that
        call = Call(self.facet, deepcopy(params_of(payload)), context.attempt, key)
        answer = self._answers[min(self._record(call), len(self._answers) - 1)]
        if isinstance(answer, Raises):
            raise answer.error
        if callable(answer):
            return Handler(self.facet, answer)(payload, context)
        return deepcopy(answer)


def _in_turn(facet: str, answer: Answer) -> Sequence[Answer]:
    answers = answer if isinstance(answer, list) else [answer]
    if not answers:
        raise InputError(f"the stub of {facet} has no answer: its list is empty")
    for each in answers:
        if isinstance(each, BaseException):
            raise InputError(f"the stub of {facet} cannot return an exception; write raises({each!r})")
        if isinstance(each, type) and issubclass(each, BaseException):
            raise InputError(
                f"the stub of {facet} cannot return an exception; write raises({each.__name__}())"
            )
        if not (each is None or callable(each) or isinstance(each, Raises | Mapping)):
            raise InputError(
                f"the stub of {facet} answers {each!r}; give a mapping of the facet's returns, a function, "
                "raises(...), or a list of these"
            )
    return answers
