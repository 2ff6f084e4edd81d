"""The system prompt of a turn: the text of its profile, or what a function of this process returns for each request."""

from __future__ import annotations

import asyncio
import inspect
from contextvars import copy_context

from afl.models import ModelError
from afl.turns.tools.dependencies import AgentContext
from afl.turns.worker.services import WorkerServices
from afl.turns.worker.turn_state import TurnState


async def system_prompt(services: WorkerServices, state: TurnState) -> str:
    """The prompt; ModelError when its function is not known here, raises, or gives no text."""
    name = state.profile.prompt_function
    if not name:
        return state.profile.system_prompt
    function = services.toolbox.prompts.get(name)
    if function is None:
        raise ModelError(f"the prompt of {name} is a function that this worker's module does not have")
    head = state.head
    context = AgentContext(services.deps.value, head.project_id, head.agent_id, state.turn_id)
    try:
        if inspect.iscoroutinefunction(function):
            made = await function(context)
        else:
            made = await asyncio.to_thread(copy_context().run, function, context)
    except Exception as error:
        raise ModelError(f"the prompt of {name} failed: {type(error).__name__}: {error}") from error
    if not isinstance(made, str):
        raise ModelError(f"the prompt of {name} is {made!r}; expected text")
    return made
