"""Bridges: event facets whose work is done by turns of agents, the fleet, or agents that take messages.

`with Agent("researcher")`, `with Fleet("etl.daily")`, `with Message("translator")` at a call or in a facet's signature
send its task there; people (`with Human("finance")`) answer through `afl.operations.people.approvals`. A module says by
`@answers` which of its functions answers messages; the rest is for hosts: `bridge`, `service`, and one file per kind.
"""

from afl.bridges.marks import answers

__all__ = ["answers"]
