"""`afl tasks`."""

from __future__ import annotations

from rich.text import Text

from afl.cli.console import output, say
from afl.cli.operation_command import operation_command
from afl.cli.tables import Table, shortened, state_text
from afl.operations.spans import span
from afl.operations.work.task_queue import TaskLine, list_tasks
from afl.runtime.entities import TaskState


@operation_command(
    list_tasks,
    state="--state",
    name="--name FACET",
    task_list="--list NAME",
    run="--run RUN",
    limit="--limit -n",
    examples="""
        afl tasks
        afl tasks --state failed --name osm.Geocode
        afl tasks --run 01jd3v --json
    """,
)
def tasks(found: list[TaskLine]) -> None:
    shown = Table("TASK", "FACET", "STATE", "AGE", "TRIES", "LIST", "STEP", "", below=["STEP", ""])
    for each in found:
        shown.add(
            each.task,
            each.name,
            state_text(each.state, each.hold if each.state == TaskState.PENDING else ""),
            span(each.age_ms),
            _tries(each),
            each.task_list,
            f"{each.run}/{each.step}" if each.step else each.run,
            Text(shortened(each.error), "red") if each.error else Text(each.owner, "dim"),
        )
    shown.print(output()) if found else say("No tasks")


def _tries(line: TaskLine) -> str:
    counts = ((line.failures, "failed"), (line.deaths, "died"), (line.expiries, "expired"))
    lost = [f"{count} {word}" for count, word in counts if count]
    return f"{line.attempts} ({', '.join(lost)})" if lost else f"{line.attempts}"
