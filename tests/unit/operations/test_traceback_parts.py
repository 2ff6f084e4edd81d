"""Tracebacks in parts: own files are shown, frames of libraries folded."""

from __future__ import annotations

import json

import pytest

from afl.kernel.traceback_text import traceback_text
from afl.operations.run.traceback_parts import traceback_parts

REMOTE = """Traceback (most recent call last):
  File "/app/agents.py", line 9, in fetch
    return client.get(url)
           ^^^^^^^^^^^^^^^
  File "/usr/lib/python3.12/contextlib.py", line 81, in inner
    return func(*args)
  File "/venv/lib/python3.12/site-packages/httpx/_client.py", line 1, in get
    raise ConnectError(request)
  [Previous line repeated 3 more times]
httpx.ConnectError: no route

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/app/agents.py", line 12, in fetch
    raise Away(url) from error
agents.Away: x"""
GROUP = """  + Exception Group Traceback (most recent call last):
  |   File "/app/agents.py", line 5, in both
  |     await gather()
  |   File "/usr/lib/python3.12/asyncio/tasks.py", line 5, in gather
  |     raise
  | ExceptionGroup: two (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/app/agents.py", line 2, in one
    |     1 / 0
    | ZeroDivisionError: division by zero
    +------------------------------------"""


@pytest.mark.parametrize("text", [REMOTE, GROUP, "", "no traceback at all"])
def test_nothing_of_the_text_is_lost(text: str) -> None:
    assert "\n".join(part.text for part in traceback_parts(text)) == text


def test_frames_of_libraries_are_folded_together() -> None:
    shown, folded, rest = traceback_parts(REMOTE)
    assert shown.text.endswith("^^^^^^^^^^^^^^^") and shown.frames == 0
    assert folded.frames == 2
    assert "contextlib.py" in folded.text and folded.text.endswith("repeated 3 more times]")
    assert rest.text.startswith("httpx.ConnectError: no route") and "raise Away" in rest.text


def test_members_of_a_group_keep_their_lines() -> None:
    shown, folded, rest = traceback_parts(GROUP)
    assert "agents.py" in shown.text
    assert (folded.frames, folded.text.count("\n")) == (1, 1)
    assert "1 / 0" in rest.text


def test_without_a_frame_of_ones_own_all_is_shown() -> None:
    text = REMOTE.replace("/app/", "/venv/lib/python3.12/site-packages/tool/")
    assert [part.frames for part in traceback_parts(text)] == [0]


def test_a_real_one_of_this_interpreter() -> None:
    try:
        json.loads("{")
    except ValueError as error:
        parts = traceback_parts(traceback_text(error).text)
    own, folded, raised = parts
    assert 'json.loads("{")' in own.text
    assert folded.frames >= 2 and "decoder.py" in folded.text
    assert "JSONDecodeError" in raised.text
