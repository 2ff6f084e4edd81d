"""Subjects: cg.v1r4.{project}.{channel}.{category}.{component}.{target}.{suffix...}."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from afl.kernel.bounds import LONGEST_NAME, is_name
from afl.turns.errors import SubjectError

VERSION = "v1r4"
PREFIX = f"cg.{VERSION}"
CATEGORIES = ("cmd", "evt", "str")
PMO_INTERNAL = ".cmd.sys.pmo.internal."  # what the built-ins are where another process serves them
TOKENS = 8  # the least a subject has

_TOKEN = re.compile(r"[^\s.*>{}]+")
_TARGET = re.compile(r"[a-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject, taken apart."""

    project_id: str
    channel_id: str
    category: str
    component: str
    target: str
    suffix: str

    def __str__(self) -> str:
        return (
            f"{PREFIX}.{self.project_id}.{self.channel_id}.{self.category}"
            f".{self.component}.{self.target}.{self.suffix}"
        )

    @property
    def is_wakeup(self) -> bool:
        return (self.category, self.component, self.suffix) == ("cmd", "agent", "wakeup")


def parse_subject(text: str) -> Subject:
    """The parts of a subject; SubjectError says what is wrong with it."""
    tokens = text.split(".")
    if len(tokens) < TOKENS or tokens[:2] != ["cg", VERSION]:
        raise SubjectError(
            f"subject {text[:200]!r}: expected {PREFIX}.project.channel.category.component.target.suffix"
        )
    if not all(_TOKEN.fullmatch(token) for token in tokens):
        raise SubjectError(
            f"subject {text[:200]!r}: a part is empty, or holds a space, a brace or a wildcard"
        )
    if tokens[4] not in CATEGORIES:
        raise SubjectError(f"subject {text[:200]!r}: category {tokens[4]!r} is none of cmd, evt, str")
    project, channel, category, component, target, *suffix = tokens[2:]
    return Subject(project, channel, category, component, target, ".".join(suffix))


def check_token(value: str, what: str) -> str:
    """An id that must fit between two dots."""
    if not _TOKEN.fullmatch(value) or not is_name(value):
        raise SubjectError(
            f"{what} {value[:80]!r}: expected 1 to {LONGEST_NAME} signs, and no space, dot, brace, * or >"
        )
    return value


def check_target(value: str) -> str:
    """The name of a group of workers."""
    if not _TARGET.fullmatch(value):
        raise SubjectError(f"worker_target {value[:80]!r}: expected small letters, digits, _ and - only")
    return value


def wakeup_subject(project_id: str, channel_id: str, target: str) -> str:
    return f"{PREFIX}.{project_id}.{channel_id}.cmd.agent.{target}.wakeup"


def event_subject(project_id: str, channel_id: str, agent_id: str, kind: str) -> str:
    """`state`, `step` or `task` of one agent."""
    return f"{PREFIX}.{project_id}.{channel_id}.evt.agent.{agent_id}.{kind}"


def action_ack_subject(project_id: str, channel_id: str) -> str:
    """The subject of acknowledgments of UI actions."""
    return f"{PREFIX}.{project_id}.{channel_id}.evt.sys.ui.action_ack"


def chunk_subject(project_id: str, channel_id: str, agent_id: str) -> str:
    return f"{PREFIX}.{project_id}.{channel_id}.str.agent.{agent_id}.chunk"


def tool_subject(template: str, project_id: str, channel_id: str, agent_id: str) -> str:
    """A tool's `target_subject` filled in: a template with {project_id}, {channel_id} and {agent_id}."""
    text = template
    for name, value in (("project_id", project_id), ("channel_id", channel_id), ("agent_id", agent_id)):
        text = text.replace("{" + name + "}", value)
    return str(check_command(text, project_id, channel_id))


def check_command(text: str, project_id: str, channel_id: str) -> Subject:
    """The subject of a command of a turn: of its own project and channel, and no wake-up."""
    subject = parse_subject(text)
    if subject.category != "cmd" or subject.is_wakeup:
        raise SubjectError(f"subject {text!r}: a command goes to cmd.*, and only L0 notifies notifiers")
    if (subject.project_id, subject.channel_id) != (project_id, channel_id):
        raise SubjectError(f"subject {text!r}: expected project {project_id!r} and channel {channel_id!r}")
    return subject


def matches(pattern: str, subject: str) -> bool:
    """Whether a subject fits a pattern with `*` for one part and a last `>` for all that follow."""
    return _compiled(pattern).fullmatch(subject) is not None


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = [{"*": "[^.]*", ">": ".*"}.get(part, re.escape(part)) for part in pattern.split(".")]
    return re.compile(r"\.".join(parts), re.DOTALL)
