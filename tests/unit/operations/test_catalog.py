"""The catalog of operations, and errors and results on the wire."""

from __future__ import annotations

import inspect
import re
from collections import Counter

import pytest

from afl.client.store_client import StoreClient
from afl.kernel.errors import AgentFlowError, Forbidden, HeldError, InputError, StoreUnavailable
from afl.kernel.setting_kinds import mask_urls
from afl.kernel.settings import load_settings
from afl.operations import serialization
from afl.operations.catalog import OPERATIONS, PUBLIC, named, operation_of
from afl.operations.operation import Operation
from afl.operations.problems import (
    Problem,
    RemoteError,
    RequestError,
    RequestTooLarge,
    error_of,
    problem_of,
)
from afl.operations.program.submission import start_workflow
from afl.operations.run import control
from afl.operations.run.run_list import list_runs
from afl.operations.run.run_view import show_run
from afl.operations.run.runs import UnknownRun
from afl.runtime.entities import RunDefinition
from afl.runtime.errors import InvalidStepStateError, StepFailure
from afl.runtime.persistence import PersistenceAPI


def test_names_functions_and_requests_are_each_there_once() -> None:
    for key in (lambda each: each.name, lambda each: each.target):
        assert [name for name, count in Counter(map(key, OPERATIONS)).items() if count > 1] == []
    places = Counter((each.method, re.sub(r"{\w+}", "{}", each.path)) for each in PUBLIC)
    assert [place for place, count in places.items() if count > 1] == []


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_a_row_fits_its_function(operation: Operation) -> None:
    assert operation_of(operation.function) is operation is named(operation.name)
    parameters = operation.signature.parameters
    assert set(re.findall(r"{(\w+)}", operation.path)) <= set(parameters)
    assert set(operation.local) <= set(parameters)
    assert inspect.getdoc(operation.function), "it needs a docstring: the API shows it"
    assert not operation.is_action or operation.method in ("POST", "DELETE", "")


@pytest.mark.parametrize("name", ["a\0b", "a\nb", "x" * 513])
def test_a_name_that_nothing_can_have_is_refused_before_the_store_is_asked(name: str) -> None:
    def store() -> PersistenceAPI:
        raise AssertionError("the store was asked, or told")

    client = StoreClient(store, load_settings(environ={}))
    for ask in (
        lambda: client.call(control.cancel, name),
        lambda: client.call(show_run, name),
        lambda: client.call(start_workflow, "w", key=name),
    ):
        with pytest.raises(InputError, match="expected 1 to 512 characters, no control characters"):
            ask()
    with pytest.raises(InputError, match="state holds a character"):
        client.call(list_runs, state="a\0b")


@pytest.mark.parametrize("operation", PUBLIC, ids=lambda each: each.name)
def test_what_it_takes_and_gives_can_be_sent(operation: Operation) -> None:
    kinds = [operation.hints[each.name] for each in operation.parameters]
    found, _ = serialization.schemas([*kinds, operation.hints["return"]])
    assert len(found) == len(kinds) + 1


def test_the_time_in_a_queue_is_part_of_a_wait() -> None:
    waits, looks = named("read_events"), named("show_run")
    assert waits.waiting_less({"run": "x", "wait": 20.0}, 5.0) == {"run": "x", "wait": 15.0}
    assert waits.waiting_less({"run": "x", "wait": 20.0}, 30.0) == {"run": "x", "wait": 0.0}
    assert waits.waiting_less({"run": "x"}, 5.0) == {"run": "x"}
    assert looks.waiting_less({"run": "x"}, 5.0) == {"run": "x"}
    assert {each.name for each in PUBLIC if each.waits} == {each.name for each in PUBLIC if each.patience}


def test_a_function_that_is_not_in_the_table() -> None:
    with pytest.raises(KeyError):
        operation_of(re.escape)
    assert operation_of(list_runs).path == "/runs"


@pytest.mark.parametrize(
    "error",
    [
        InputError("no"),
        HeldError("held"),
        Forbidden("not you"),
        RequestError("limit: too small"),
        RequestTooLarge("too large"),
    ],
)
def test_an_error_comes_back_as_the_same(error: AgentFlowError) -> None:
    again = error_of(problem_of(error))
    assert (type(again), str(again)) == (type(error), str(error))


def test_an_unknown_run_brings_the_latest_along() -> None:
    latest = [RunDefinition("r1", "W", "hash", "failed", created=7)]
    again = error_of(problem_of(UnknownRun("x", latest)))
    assert isinstance(again, UnknownRun)
    assert [(run.workflow_id, run.workflow_name, run.state, run.created) for run in again.latest] == [
        ("r1", "W", "failed", 7)
    ]


def test_errors_that_are_more_than_their_text_keep_it() -> None:
    told = problem_of(InvalidStepStateError("s", "now", ["then"]))
    again = error_of(told)
    assert isinstance(again, RemoteError) and "is in state 'now'" in str(again)
    assert isinstance(error_of(Problem("of-the-future", "odd")), RemoteError)


def test_passwords_are_left_out_of_what_is_told() -> None:
    error = StoreUnavailable("postgresql://me:secret@host/db does not answer; see redis://x:secret@y/0")
    assert "secret" not in problem_of(error).message
    assert mask_urls("nothing to hide") == "nothing to hide"


def test_statuses_of_errors() -> None:
    assert (InputError.status, UnknownRun.status, StoreUnavailable.status) == (422, 404, 503)
    assert AgentFlowError.status == 500


def test_a_failure_is_sent_as_what_it_says() -> None:
    failure = StepFailure("boom", "ValueError", step="x", facet="F", line=3, column=1)
    again = serialization.decode(serialization.encode({"error": failure}), dict[str, StepFailure])["error"]
    assert again.to_dict() == failure.to_dict()
