"""The names of all keys. Nothing is found by a pattern: whatever must be found is a member of an index set."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from afl.coordination.errors import AgentNameError, CoordinatorInputError, CoordinatorSettingError
from afl.coordination.models import AgentId
from afl.kernel.bounds import LONGEST_NAME, is_name

_log = logging.getLogger(__name__)
DEFAULT_INSTANCE = "default"


def agent_name(agent_id: AgentId) -> str:
    """`type:instance`, as in keys. An agent without instance has the name of instance "default"."""
    instance = DEFAULT_INSTANCE if agent_id.instance is None else agent_id.instance
    for what, value in (("type", agent_id.type), ("instance", instance)):
        if not is_name(value, but=":"):
            raise AgentNameError(
                f"agent {what} is {value[:80]!r}; expected 1 to {LONGEST_NAME} printable characters without a "
                "colon, which keys use to tell type from instance"
            )
    return f"{agent_id.type}:{instance}"


@lru_cache(maxsize=10_000)
def _checked_name(kind: str, instance: str | None) -> str:
    return agent_name(AgentId(type=kind, instance=instance))


def queue_name(agent_id: AgentId) -> str:
    """`agent_name`, cached; CoordinatorInputError when it is not an AgentId."""
    if not isinstance(agent_id, AgentId):
        raise CoordinatorInputError(f"expected an AgentId, not {str(agent_id)[:80]!r}")
    return _checked_name(agent_id.type, agent_id.instance)


def readable(names: Iterable[bytes]) -> list[str]:
    """Names as text; invalid ones are skipped and logged."""
    found = []
    for name in names:
        try:
            found.append(name.decode())
        except UnicodeDecodeError:
            _log.warning("a name that is not text is skipped: %r", name[:80])
    return found


def named_agent(name: str) -> AgentId:
    """The agent of a name made by `agent_name`."""
    kind, _, instance = name.partition(":")
    return AgentId(type=kind, instance=None if instance == DEFAULT_INSTANCE else instance)


@dataclass(frozen=True)
class QueueKeys:
    """The keys of one agent's queue, in the order of every message script."""

    prefix: str
    name: str

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        """Each key with the type of value it must hold."""
        p, name = self.prefix, self.name
        return {
            f"{p}:messages:{name}": "hash",
            f"{p}:sched:{name}:prio:9": "zset",
            f"{p}:sched:{name}:prio:5": "zset",
            f"{p}:sched:{name}:prio:1": "zset",
            f"{p}:reserved:{name}": "hash",
            f"{p}:reserved_deadlines:{name}": "zset",
            f"{p}:dlq:{name}": "list",
            f"{p}:queue:{name}": "list",
            f"{p}:subs:{name}": "set",
            f"{p}:subscriptions:{name}": "hash",
            f"{p}:expiring:{name}": "zset",
            f"{p}:seen:{name}": "zset",
            f"{p}:queues": "set",
        }

    @cached_property
    def all(self) -> tuple[str, ...]:
        return tuple(self.kinds)

    @property
    def notify(self) -> str:
        """The channel of notifications for new messages."""
        return f"{self.prefix}:ring:{self.name}"


@dataclass(frozen=True)
class Keys:
    """All keys below one prefix. For a cluster, put a hash tag into the prefix: `{tag}` in braces."""

    prefix: str

    @classmethod
    def under(cls, prefix: str) -> Keys:
        """A final colon is not part of the prefix."""
        plain = prefix.rstrip(":")
        if not plain:
            raise CoordinatorSettingError(f"key_prefix is {prefix!r}; expected at least one character")
        return cls(plain)

    @property
    def queues(self) -> str:
        """Set of the names of all queues that hold something."""
        return f"{self.prefix}:queues"

    def queue(self, agent_id: AgentId) -> QueueKeys:
        return QueueKeys(self.prefix, agent_name(agent_id))

    def agent(self, name: str) -> str:
        """Agent data JSON."""
        return f"{self.prefix}:agents:{name}"

    @property
    def agents_index(self) -> str:
        """Agent keys set."""
        return f"{self.prefix}:agents:index"

    def capabilities(self, name: str) -> str:
        """Capability JSON."""
        return f"{self.prefix}:capabilities:{name}"

    @property
    def capabilities_index(self) -> str:
        """Capability keys set."""
        return f"{self.prefix}:capabilities:index"

    @property
    def events(self) -> str:
        """Channel prefix of the registry's events."""
        return f"{self.prefix}:events"

    def breaker_state(self, name: str) -> str:
        return f"{self.prefix}:cb:state:{name}"

    def breaker_metrics(self, name: str) -> str:
        return f"{self.prefix}:cb:metrics:{name}"

    @property
    def breakers_index(self) -> str:
        """Set of the names of all breakers."""
        return f"{self.prefix}:cb:registry"
