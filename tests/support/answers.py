"""What agents answer in model and crash tests: nothing but a function of the facet and what it is given."""

from __future__ import annotations

import json
from typing import Any
from zlib import crc32

from support.model_values import Endless, Problem


def answer_for(returns: dict[str, dict[str, Any]]) -> Any:
    """What agents answer: a pure function of facet and payload.

    Echo gives back what it gets, Refuse always fails; Risky sometimes fails, Sloppy's answer sometimes does not fit.
    The signal of Late does not come in time, that of Never does not come at all.
    """

    def answer(facet: str, payload: dict[str, Any]) -> dict[str, Any]:
        if facet.endswith("Echo"):
            return dict(zip(returns[facet], payload.values(), strict=False))
        if facet.endswith("Refuse"):
            raise Problem("AgentError", "boom")
        if facet.endswith("Late"):
            raise Problem("Timeout", "did not come within")
        if facet.endswith("Never"):
            raise Endless
        seed = crc32(f"{facet}{json.dumps(payload, sort_keys=True)}".encode())
        if facet.endswith("Risky") and seed % 3 == 0:
            raise Problem("AgentError", f"boom {seed % 7}")
        values = {name: _made(kind, seed // 3 + i) for i, (name, kind) in enumerate(returns[facet].items())}
        if facet.endswith("Sloppy") and seed % 3 == 0:
            values = {name: {"not": "wanted"} for name in values}
        return values

    return answer


def _made(kind: Any, seed: int) -> Any:
    if isinstance(kind, dict):
        return [seed % 10 + i for i in range(seed % 4)]
    return {"Double": seed % 10 / 4, "Long": seed % 10, "String": f"s{seed % 5}", "Boolean": seed % 2 == 0}[
        kind
    ]


def event_returns(program: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The return clauses of a compiled program's event facets, by full name."""
    return {
        f"{namespace['name']}.{facet['name']}": {
            each["name"]: each["type"] for each in facet.get("returns", [])
        }
        for namespace in program.get("namespaces", [])
        for facet in namespace.get("eventFacets", [])
    }
