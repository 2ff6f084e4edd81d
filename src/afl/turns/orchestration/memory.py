"""The memory of an agent: built-in tools that keep texts in the store, and find them by their words.

What is remembered in a session is found in that session alone; `remember_for_all` is for what all sessions of the agent
may know, so it is a tool of its own, which a definition allows or not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from afl.kernel.database import Transaction, queries
from afl.turns.model import Head
from afl.turns.orchestration.requests import Recall, Remember, read_request
from afl.turns.protocol.ids import new_id
from afl.turns.resources import get_agent

Q = queries("afl.turns.store", "sql/memory")
_WORD = re.compile(r"\w+")
_LONGEST_WORD = 64
_MOST_WORDS = 500


def perform_memory(tx: Transaction, head: Head, name: str, arguments: Mapping[str, Any]) -> Any:
    """What a tool of the memory answers. InputError for arguments that do not fit."""
    session, agent = scopes_of(tx, head)
    if name == "recall":
        asked = read_request(Recall, arguments, name)
        scopes = list(dict.fromkeys([session, agent]))
        return recall(tx, head.project_id, scopes, asked.query, asked.limit)
    told = read_request(Remember, arguments, name)
    scope = agent if name == "remember_for_all" else session
    remember(tx, head.project_id, scope, told.text, head.active_agent_turn_id or "")
    return "remembered"


def scopes_of(tx: Transaction, head: Head) -> tuple[str, str]:
    """The scope of the session that an agent acts in, and that of the agent; without a session both are the agent's."""
    row = get_agent(tx, head.project_id, head.agent_id)
    about = {} if row is None else row.metadata
    agent = f"agent:{about.get('agent', head.agent_id)}"
    return (f"session:{about['session']}" if "session" in about else agent), agent


def remember(tx: Transaction, project: str, scope: str, text: str, turn_id: str = "") -> None:
    """Keep a text, to be found by its words."""
    memory = new_id("card")
    where = {"project": project, "scope": scope, "memory": memory}
    tx.run(Q.add_memory, **where, text=text, turn=turn_id)
    tx.many(Q.add_word, [{**where, "word": word} for word in words_of(text)])


def recall(tx: Transaction, project: str, scopes: list[str], query: str, limit: int) -> list[str]:
    """The texts with most of the words, newest first among equals; without words the newest ones."""
    words = words_of(query)
    where = {"project": project, "scopes": scopes, "limit": limit}
    rows = tx.all(Q.recall, **where, words=words) if words else tx.all(Q.latest, **where)
    return [row["text"] for row in rows]


def forget(tx: Transaction, project: str, scope: str) -> None:
    """Remove all that was remembered in a scope."""
    tx.run(Q.forget_words, project=project, scope=scope)
    tx.run(Q.forget_memories, project=project, scope=scope)


def words_of(text: str) -> list[str]:
    """The words that a text is found by, each once."""
    found = (word[:_LONGEST_WORD] for word in _WORD.findall(text.casefold()))
    return list(dict.fromkeys(found))[:_MOST_WORDS]
