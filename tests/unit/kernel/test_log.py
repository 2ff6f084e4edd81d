"""Logging: two formats, facts kept, other people's handlers left alone."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from io import StringIO

import pytest

from afl.kernel.errors import SettingError
from afl.kernel.log import configure_logging, working_on


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    logger = logging.getLogger("afl")
    before = (logger.handlers[:], logger.level, logger.propagate)
    yield
    logger.handlers[:], logger.level, logger.propagate = before[0], before[1], before[2]


def test_lines_carry_the_facts() -> None:
    stream = StringIO()
    configure_logging("info", stream=stream)
    logging.getLogger("afl.kernel").info("claimed %d", 3, extra={"list": "default"})
    logging.getLogger("afl.kernel").debug("not shown")
    (line,) = stream.getvalue().splitlines()
    assert line.endswith("INFO afl.kernel: claimed 3 list=default")


def test_json_is_one_object_per_line() -> None:
    stream = StringIO()
    configure_logging("DEBUG", json=True, stream=stream)
    try:
        raise KeyError("x")
    except KeyError:
        logging.getLogger("afl").exception("two\nlines", extra={"path": {1}})
    entry = json.loads(stream.getvalue())
    assert stream.getvalue().count("\n") == 1
    assert (entry["level"], entry["logger"], entry["message"]) == ("ERROR", "afl", "two\nlines")
    assert entry["path"] == [1] and "KeyError: 'x'" in entry["exception"] and entry["time"].endswith("+00:00")


def test_a_second_call_replaces_the_first_and_leaves_others_alone() -> None:
    first, second, mine = StringIO(), StringIO(), logging.NullHandler()
    logging.getLogger("afl").addHandler(mine)
    configure_logging(stream=first)
    configure_logging(stream=second)
    logging.getLogger("afl").warning("once")
    assert first.getvalue() == "" and second.getvalue().count("once") == 1
    assert mine in logging.getLogger("afl").handlers


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(SettingError, match="log level is 'LOUD'; expected one of DEBUG"):
        configure_logging("LOUD")


def test_what_is_worked_on_is_a_fact_of_every_line() -> None:
    stream = StringIO()
    configure_logging("INFO", json=True, stream=stream)
    logger = logging.getLogger("afl.kernel")
    with working_on(run="r", step="s"):
        with working_on(task="t", step="inner"):
            logger.info("deep", extra={"task": "said"})
        logger.info("back")
    logger.info("out")
    deep, back, out = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (deep["run"], deep["step"], deep["task"]) == ("r", "inner", "said")
    assert (back["run"], back["step"], "task" in back) == ("r", "s", False)
    assert "run" not in out
