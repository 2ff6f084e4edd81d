"""The in-memory store: an SQLite database that is gone with the process."""

from __future__ import annotations

from afl.kernel.database import connect
from afl.runtime.step import StepDefinition
from afl.runtime.stores.sql_store import SqlStore
from afl.runtime.stores.sql_store.rows import step_from
from afl.runtime.stores.sql_store.tables import Q


class MemoryStore(SqlStore):
    """For tests and short-lived work. Every read is a fresh object, every write a copy."""

    def __init__(self) -> None:
        super().__init__(connect("memory://"))

    def clear(self) -> None:
        """Forget everything."""
        self.database.close()
        super().__init__(connect("memory://"))

    def step_count(self) -> int:
        """How many steps there are."""
        return int(self.database.select(Q.count_steps)[0]["found"])

    def event_count(self) -> int:
        """How many events there are, StepContinue marks aside."""
        return int(self.database.select(Q.count_events)[0]["found"])

    def get_all_steps(self) -> list[StepDefinition]:
        """Every step."""
        return [step_from(row) for row in self.database.select(Q.get_all_steps)]
