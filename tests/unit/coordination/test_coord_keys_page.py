"""docs/coordination-keys.md names every key that the code has, with the kind of its value, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from afl.coordination.keys import Keys, QueueKeys
from afl.coordination.redis_breaker import BreakerKeys
from afl.coordination.redis_registry import RegistryKeys

PAGE = Path(__file__).parents[3] / "docs" / "coordination-keys.md"
SEED = (
    "{prefix}:queue:{type}:{instance}",
    "{prefix}:sched:{type}:{instance}:prio:9",
    "{prefix}:reserved:{type}:{instance}",
    "{prefix}:reserved_deadlines:{type}:{instance}",
    "{prefix}:dlq:{type}:{instance}",
    "{prefix}:subs:{type}:{instance}",
    "{prefix}:agents:{type}:{instance}",
    "{prefix}:agents:index",
    "{prefix}:capabilities:{type}:{instance}",
    "{prefix}:capabilities:index",
)


def kinds() -> dict[str, str]:
    keys = Keys("{prefix}")
    return {
        **QueueKeys("{prefix}", "{type}:{instance}").kinds,
        **RegistryKeys(keys).everything(["{type}:{instance}"]),
        **BreakerKeys(keys, "{name}").kinds,
    }


def test_the_page_and_the_code_have_the_same_keys() -> None:
    told = dict(re.findall(r"^\| `([^`]+)` \| (\w+) \|", PAGE.read_text(), re.MULTILINE))
    assert told == kinds()


def test_the_keys_of_the_document_are_all_there() -> None:
    assert set(SEED) <= set(kinds())


def test_a_colon_at_the_end_of_a_prefix_is_no_part_of_it() -> None:
    assert Keys.under("myapp:").agents_index == Keys.under("myapp").agents_index == "myapp:agents:index"
