"""What the registry tells those who watch it: one event per change, and none when nothing changed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from afl.coordination.keys import named_agent
from afl.coordination.models import AgentId
from afl.kernel.bounds import cut

LOGGER = logging.getLogger(__name__)
EventKind = Literal["registered", "status_changed", "deregistered", "died", "revived"]
# What a snapshot counts grows without anything having happened.
_VOLATILE = frozenset({"metrics"})


class AgentEvent(BaseModel):
    """`at` is the server's time in seconds since 1970; statuses come without what they count."""

    event: EventKind
    agent: str
    at: float
    status: dict[str, Any] | None = None
    previous_status: dict[str, Any] | None = None

    @property
    def agent_id(self) -> AgentId:
        """Whom it is about; `agent` is the same as text, type:instance."""
        return named_agent(self.agent)


def read_event(data: str | bytes) -> AgentEvent | None:
    """The event that somebody told; None for what is none, which is logged."""
    try:
        return AgentEvent.model_validate_json(data)
    except ValidationError as error:
        LOGGER.warning("what was told on the registry's channel is no event: %s", cut(str(error), 500))
        return None


def steady(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a status whose change is an event."""
    return {name: value for name, value in snapshot.items() if name not in _VOLATILE}
