"""Deliverables, and the limits that lead to the incomplete ones."""

from __future__ import annotations

from typing import Any

import pytest

from afl.kernel.errors import InputError
from afl.operations.turn.turn_view import card_text
from afl.turns.cardbox.cards import Card, tool_result_content
from afl.turns.cardbox.deliverable import answer_content, deliverable_text, fields_content
from afl.turns.statuses import TaskStatus
from afl.turns.transitions import fallback_content
from afl.turns.worker.model_call import warning
from afl.turns.worker.services import WorkerLimits


def test_words() -> None:
    assert deliverable_text(answer_content("done")) == "done"
    assert deliverable_text(answer_content("")) == ""


def test_a_result_in_part_is_shown_with_its_error() -> None:
    error = {"code": "batch_failed", "message": "1 of 2"}
    content = tool_result_content("partial", "suspend", {"results": [1]}, error)
    card = Card("tool.result", content, "sys", tool_call_id="c", function_name="fork_join")
    assert card_text(card) == 'batch_failed: 1 of 2\n{"results":[1]}'


def test_fields() -> None:
    one = fields_content([{"name": "a", "value": "1"}])
    two = fields_content([{"name": "a", "value": "1"}, {"name": "b", "value": "2"}])
    assert deliverable_text(one) == "1" and deliverable_text(two) == "a: 1\nb: 2"


def test_a_fallback_is_told_by_its_message() -> None:
    content = fallback_content(TaskStatus.FAILED, "max_steps_reached", "worker")
    assert deliverable_text(content) == "max_steps_reached"


@pytest.mark.parametrize("wrong", [{"max_steps": 0}, {"suspend_timeout": 0}, {"concurrency": 0}])
def test_limits_that_cannot_be(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="expected"):
        WorkerLimits(**wrong)


def test_a_wait_is_as_long_as_its_slowest_tool() -> None:
    limits = WorkerLimits(suspend_timeout=30)
    assert limits.wait_seconds([None, 5]) == 30
    assert limits.wait_seconds([None, 900, 60]) == 900


@pytest.mark.parametrize(
    ("left", "ends", "said"),
    [(3, ["a"], ""), (2, ["a"], "Two steps"), (1, ["a", "b"], "call a or b now"), (1, [], "final answer")],
)
def test_a_model_is_told_when_its_steps_run_out(left: int, ends: list[str], said: str) -> None:
    assert said in warning(left, ends)
    assert bool(warning(left, ends)) == (left < 3)


def test_steps_left() -> None:
    limits = WorkerLimits(max_steps=3)
    assert [limits.steps_left(done) for done in (0, 2, 3, 9)] == [3, 1, 0, 0]
