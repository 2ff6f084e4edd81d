"""The steps of namespace `sys` that the runtime does itself: timers and published values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from afl.kernel.bounds import check_tags, is_name
from afl.kernel.errors import InputError
from afl.language.timers import MAX_SLEEP_MS, time_problem
from afl.runtime.entities import TaskDefinition, TaskHold
from afl.runtime.errors import StepFailure

SLEEP, UNTIL, PUBLISH, TAG = "sys.Sleep", "sys.Until", "sys.Publish", "sys.Tag"
TIMERS = (SLEEP, UNTIL)
BUILT_IN = (*TIMERS, PUBLISH, TAG)
MAX_PUBLISHED_NAME = 200


def set_timer(task: TaskDefinition) -> None:
    """Make the task of a `Sleep` or `Until` a timer; nothing for any other. StepFailure (BadTimer) for a bad time."""
    if task.name == SLEEP:
        task.timeout_ms, task.hold = _milliseconds(task.params["ms"]), TaskHold.TIMER
    elif task.name == UNTIL:
        task.deadline, task.hold = _moment(task.params["time"]), TaskHold.TIMER


def published_name(params: Mapping[str, Any]) -> str:
    """The name under which a value is published; StepFailure (BadName) for one that cannot be."""
    name = params["name"]
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_PUBLISHED_NAME or not is_name(name):
        raise StepFailure(
            f"{PUBLISH}: the name is {name!r:.80}; expected 1 to {MAX_PUBLISHED_NAME} characters, no control "
            "characters among them",
            "BadName",
        )
    return name


def tagged(tags: Mapping[str, str], params: Mapping[str, Any]) -> dict[str, str]:
    """The tags of a run with one more, or with another value of one; StepFailure (BadTag) for one that cannot be."""
    try:
        return check_tags({**tags, params["name"]: params["value"]})
    except InputError as error:
        raise StepFailure(f"{TAG}: {error}", "BadTag") from error


def _milliseconds(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_SLEEP_MS:
        raise StepFailure(
            f"{SLEEP}: ms is {value!r}; expected a whole number from 0 to {MAX_SLEEP_MS} (100 years)",
            "BadTimer",
        )
    return value


def _moment(value: Any) -> int:
    problem = time_problem(value)
    if problem:
        raise StepFailure(f"{UNTIL}: {problem}", "BadTimer")
    return max(1, round(datetime.fromisoformat(value).timestamp() * 1000))
