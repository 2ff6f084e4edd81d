"""Tasks that are done elsewhere, in SQL: handed over, asked for again, ended, and told of their end."""

from __future__ import annotations

from typing import Any

from afl.kernel import codec
from afl.kernel.clock import wall_ms
from afl.kernel.database import Transaction
from afl.kernel.notify import Notifications
from afl.runtime.entities import TaskDefinition
from afl.runtime.persistence.topics import ELSEWHERE_TOPIC
from afl.runtime.stores.sql_store.tables import Q, Tables, via_range
from afl.runtime.stores.sql_store.task_rows import bridge_text, task_from


class ElsewhereTables(Tables):
    """The ElsewhereStore protocol."""

    def hand_over(
        self, task: TaskDefinition, via: str, bridge: dict[str, Any] | None = None, *, patience_ms: int = 0
    ) -> bool:
        text = None if bridge is None else codec.encode(bridge, what=f"the bridge of task {task.uuid}")

        def work(tx: Transaction, notifications: Notifications) -> bool:
            claim = {"uuid": task.uuid, "owner": task.owner, "epoch": task.epoch}
            place = {"via": via, "bridge": text, "patience_ms": patience_ms}
            done = bool(tx.run(Q.hand_over, **claim, **place, updated=wall_ms()))
            if done:
                notifications.add(tx, ELSEWHERE_TOPIC)
            return done

        return self.notifying(work)

    def get_unanswered(self, limit: int = 100) -> list[TaskDefinition]:
        return [task_from(row) for row in self.database.select(Q.unanswered, limit=limit)]

    def ask_next(self, task: TaskDefinition, via: str) -> bool:
        def work(tx: Transaction, notifications: Notifications) -> bool:
            stands = {"uuid": task.uuid, "via": task.via, "epoch": task.epoch}
            asked = {"next": via, "bridge": bridge_text(task), "patience_ms": task.patience_ms}
            done = bool(tx.run(Q.ask_next, **stands, **asked, updated=wall_ms()))
            if done:
                notifications.add(tx, ELSEWHERE_TOPIC)
            return done

        return self.notifying(work)

    def ended_elsewhere(self, kind: str, limit: int = 100) -> list[TaskDefinition]:
        rows = self.database.select(Q.ended_elsewhere, **via_range(kind), limit=limit)
        return [task_from(row) for row in rows]

    def told(self, task: TaskDefinition) -> bool:
        return bool(self.database.write(lambda tx: tx.run(Q.told, uuid=task.uuid)))
