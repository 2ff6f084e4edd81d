"""Starting a run inside a transaction of the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afl.client.source import StartSource
from afl.client.store_client import OperationsClient, StoreClient
from afl.kernel.errors import CapabilityError, InputError
from afl.operations import audit
from afl.operations.catalog import operation_of
from afl.operations.program.library import find_workflow, load_workflow
from afl.operations.program.sources import program_of
from afl.operations.program.submission import Submitted, check_same, new_run, submit
from afl.runtime.entities import RunDefinition
from afl.runtime.program.program import Program
from afl.runtime.stores.sql_store.joined_start import Result, Statements, joinable, start_statements


class JoinedStart:
    """A run that is there if and only if the transaction of a connection commits."""

    def __init__(
        self,
        client: OperationsClient,
        connection: Any,
        source: StartSource,
        inputs: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> None:
        if not isinstance(client, StoreClient):
            raise CapabilityError("connection= takes a client of the store, not of a server")
        if options["budget_usd"] is not None or options["budget_tokens"] is not None:
            raise InputError("connection= and a budget do not go together; set the budget in the workflow")
        store = joinable(client.store)
        operation = operation_of(submit)
        client.check(operation)
        program = _program(client, source)
        self._run: RunDefinition = new_run(store, program, inputs, **_options(options))
        log = audit.entry(client.caller, operation.name, self._run.workflow_id, audit.DONE)
        self.statements: Statements = start_statements(store, connection, program, self._run, log)

    def submitted(self, earlier: RunDefinition | None) -> Submitted:
        """The run that was stored, or was there already; RunExists if that one is another."""
        if earlier is not None:
            check_same(earlier, self._run)
        return Submitted(self._run.workflow_id, self._run.workflow_name, self._run.task_list)


def _options(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in ("id", "run_name", "tags", "task_list")}


def _program(client: StoreClient, source: StartSource) -> Program:
    if source.program is not None:
        return source.program
    if source.text:
        return program_of(source.text, source.workflow, name=source.name)
    return load_workflow(client.store, find_workflow(client.store, source.workflow))


def result_of(cursor: Any, row: Any) -> Result:
    """What a statement gave, whatever the connection makes rows of."""
    return Result(cursor.rowcount, list(row.values()) if isinstance(row, Mapping) else row)
