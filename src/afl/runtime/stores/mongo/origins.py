"""Runs in MongoDB that were started again, or forked, from others."""

from __future__ import annotations

from afl.runtime.entities import RunDefinition
from afl.runtime.stores.mongo.collections import NEWEST_RUN, Collections
from afl.runtime.stores.mongo.records import run_from


class OriginCollection(Collections):
    """The OriginStore protocol."""

    def get_runs_from(self, origin: str, limit: int = 100) -> list[RunDefinition]:
        if limit < 1:
            return []
        below = {"origin": {"$gt": f"{origin}/", "$lt": f"{origin}0"}}  # the zero comes after the slash
        query = {"$or": [{"origin": origin}, below]}
        found = self._all("runs", query, projection={"inputs": 0}, sort=NEWEST_RUN, limit=limit)
        return [run_from(each) for each in found]
