"""A function marked by `@answers`, as a Consumer calls it.

The parameters of the function are the payload of the message; it may take `message` as well, whose `message_id` is
the same on every attempt. It returns a map, a dataclass or a pydantic model. An exception is retried as the options
of the coordinator say; PermanentFailure is not retried.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from afl.coordination.errors import PermanentFailure
from afl.coordination.models import AgentId, ReceivedMessage
from afl.kernel.user_thread import result_of
from afl.runtime.program.values import unknown_name
from afl.runtime.task_handlers.handler import plain

_MESSAGE = "message"


def agent_of(name: str) -> AgentId:
    """The agent of a name; `translator` is the queue that all translators share."""
    kind, _, instance = name.partition(":")
    return AgentId(type=kind, instance=instance or None)


class AnswerHandler:
    """One function and the agent it answers for."""

    def __init__(self, agent: str, function: Callable[..., Any]) -> None:
        self.agent = agent
        self._function = function
        parameters = inspect.signature(function).parameters.values()
        self._wants_message = any(each.name == _MESSAGE for each in parameters)
        self._takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters)
        self._names = {each.name for each in parameters} - {_MESSAGE}

    async def __call__(self, received: ReceivedMessage) -> dict[str, Any]:
        given = dict(received.message.payload)
        surplus = [] if self._takes_all else [name for name in given if name not in self._names]
        if surplus:
            reason = unknown_name("parameter", surplus[0], self._names)
            raise PermanentFailure(f"what answers for {self.agent} does not take this: {reason}")
        if self._wants_message:
            given[_MESSAGE] = received.message
        answer = plain(await result_of(self._function, named=given))
        if answer is None:
            return {}
        if not isinstance(answer, dict):
            kind = type(answer).__name__
            raise PermanentFailure(f"what answers for {self.agent} returned a {kind}; expected a map")
        return answer
