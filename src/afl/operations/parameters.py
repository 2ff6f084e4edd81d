"""Types of parameters that several operations share.

Bounds and descriptions are checked and shown by the HTTP API, the command line and MCP; `choices` are the values that
an option of the command line takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from afl.kernel.bounds import LONGEST_NAME, LONGEST_RUN_ID
from afl.models.content import File

LONGEST_SOURCE = 1 << 20
WAITING_FOR = ("person", "signal", "timer", "slot", "budget", "agent", "run")
RUN_STATES = (
    *("created", "running", "retrying", "waiting", *(f"waiting:{each}" for each in WAITING_FOR)),
    *("paused", "failed", "canceled", "completed"),
)
TASK_STATES = ("pending", "running", "completed", "failed", "ignored", "canceled")


def about(description: str) -> Meta:
    """What a parameter means."""
    return Meta(description=description)


Limit = Annotated[int, Meta(ge=1, le=100_000, description="How many at most.")]
Position = Annotated[int, Meta(ge=0, le=2**53, description="Where to read on: a number that an answer gave.")]
Skip = Annotated[int, Meta(ge=0, le=1_000_000, description="How many to leave out.")]
Files = Annotated[
    list[File] | None,
    about("Images, audio or documents for it: each has its media type, and its bytes in base64."),
]
Source = Annotated[str, Meta(max_length=LONGEST_SOURCE, description="A source in AFL.")]
LongPoll = Annotated[float, Meta(ge=0, le=30, description="How long to wait for news, in seconds.")]
Milliseconds = Annotated[int, Meta(ge=0, le=2**53, description="A time, in milliseconds.")]
Dollars = Annotated[float, Meta(ge=0, le=1e12, description="What its models may cost, in US dollars.")]
Tokens = Annotated[int, Meta(ge=0, le=2**53, description="How many tokens its models may use.")]
Run = Annotated[str, about("The run's id, or its first characters.")]
RunId = Annotated[
    str,
    Meta(
        max_length=LONGEST_RUN_ID,
        description="An id of the run's own: the same start again is the same run. Made up if there is none.",
    ),
]
RunName = Annotated[str, Meta(max_length=LONGEST_NAME, description="What the run is called in lists.")]
Tags = Annotated[Mapping[str, str], about("What the run can be found by: texts by name.")]
LatestRun = Annotated[str, about("The run's id, or its first characters. Default: the latest run.")]
Workflow = Annotated[str, about("The workflow's full name, such as news.MorningPage.")]
RunStateName = Annotated[
    str,
    Meta(
        description="Only runs in this state; `waiting:person` names what they wait for.",
        extra={"choices": RUN_STATES},
    ),
]
TaskStateName = Annotated[
    str,
    Meta(description="Only tasks in this state; running and pending ones.", extra={"choices": TASK_STATES}),
]
ApprovalId = Annotated[
    str, about("The approval's id, or its first characters; or the run, if it waits for one answer.")
]
Turn = Annotated[
    str, about("The turn's id, or enough of its beginning; an agent: its turn; nothing: the latest.")
]
