"""Finding agents that take messages, and circuit breakers, by a part of their name."""

from __future__ import annotations

from afl.coordination.models import AgentId
from afl.operations.message import coordination
from afl.operations.message.coordination import Where, agent_text
from afl.operations.search import Hit, few, within


def search_messages(where: Where, text: str) -> list[Hit]:
    """Agents, registered or with a queue, and circuit breakers."""
    wanted = text.strip()
    if not wanted:
        return []
    queued = [each.agent_id for each in coordination.queues(where)]
    registered = [AgentId.model_validate(each["agent_id"]) for each in coordination.agents(where)]
    known = dict.fromkeys(map(agent_text, [*queued, *registered]))
    agents = (
        Hit("message agent", name, name, exact=name == wanted) for name in known if within(wanted, name)
    )
    breakers = (
        Hit("circuit breaker", each.name, each.name, each.state, exact=each.name == wanted)
        for each in coordination.breakers(where)
        if within(wanted, each.name)
    )
    return [*few(agents), *few(breakers)]
