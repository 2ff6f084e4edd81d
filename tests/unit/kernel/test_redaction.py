"""Secrets that are masked before anything is stored or logged."""

from __future__ import annotations

import io
import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.work import assert_bounded

import afl
from afl.kernel.error_text import MOST_CHARACTERS, error_text
from afl.kernel.errors import InputError
from afl.kernel.log import JsonFormatter, LineFormatter, RedactingFormatter
from afl.kernel.redaction import beginning, forget_secrets, redacted, redacted_data
from afl.kernel.settings import load_settings


def test_what_was_told_is_masked_and_nothing_else() -> None:
    assert redacted("the key is swordfish") == "the key is swordfish"
    afl.redact("swordfish", "swordfish-2", "")
    assert redacted("swordfish, swordfish-2 and sword fish") == "***, *** and sword fish"


def test_as_it_is_written_in_addresses_python_and_json() -> None:
    afl.redact('pass/wört"\n9')
    for text in (
        "pass%2Fw%C3%B6rt%22%0A9",
        repr('pass/wört"\n9'),
        json.dumps('pass/wört"\n9', ensure_ascii=False),
    ):
        assert "9" not in redacted(f"see {text}.")


@pytest.mark.parametrize("wrong", ["abc", "x" * 65_537, 7])
def test_what_cannot_be_a_secret_is_refused(wrong: str) -> None:
    with pytest.raises(InputError, match="a secret to mask is a text of 4 to 65,536 characters"):
        afl.redact(wrong)


def test_too_many_are_refused() -> None:
    with pytest.raises(InputError, match="more than 1,000 secrets"):
        afl.redact(*(f"secret-{number}" for number in range(1_001)))
    assert redacted("secret-7") == "secret-7"


def test_settings_that_are_secret_are_told_when_they_are_read() -> None:
    values = {
        "AFL_TOKEN": "token-of-ours",
        "AFL_STORE": "postgresql://afl:p%40ssword-9@db/afl",
        "AFL_REDIS": "redis://default:default@cache",
    }
    load_settings(environ=values)
    text = "token-of-ours p@ssword-9 p%40ssword-9 default"
    assert redacted(text) == "*** *** *** default"  # what stands elsewhere in its address is no secret


def test_data_is_masked_however_deep_it_is() -> None:
    afl.redact("swordfish")
    deep: list[object] = ["swordfish"]
    for _ in range(5_000):
        deep = [deep]
    masked = redacted_data(deep)
    while isinstance(masked, list):
        (masked,) = masked
    assert masked == "***"
    assert redacted_data({"a": ("swordfish", 1, None)}) == {"a": ["***", 1, None]}


@given(st.integers(0, 60), st.integers(0, 30))
def test_a_cut_leaves_no_part_of_a_secret(before: int, others: int) -> None:
    forget_secrets()
    afl.redact("swordfish-swordfish")
    start = "swordfish-swordfish " * others
    text = start + "x" * (MOST_CHARACTERS - len(start) - before) + "swordfish-swordfish" + " y" * 100
    assert "fish" not in error_text(text)
    assert "sword" not in error_text(text)


@given(st.text(max_size=9_000))
def test_a_text_that_was_cut_and_masked_stays_as_it_is(text: str) -> None:
    assert error_text(error_text(text)) == error_text(text)


@pytest.mark.parametrize(
    "formatter", [LineFormatter(), JsonFormatter(), RedactingFormatter("%(message)s %(key)s")]
)
def test_what_processes_log_is_masked_with_facts_and_traces(formatter: logging.Formatter) -> None:
    afl.redact("swordfish")
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logger = logging.Logger("test")
    logger.addHandler(handler)
    try:
        raise OSError("no postgresql://me:hush@db with swordfish")
    except OSError as error:
        logger.exception("failed: %s", error, extra={"key": "swordfish", "error": error})
    assert "swordfish" not in stream.getvalue()
    assert "hush" not in stream.getvalue()
    assert "postgresql://me:***@db with ***" in stream.getvalue()


def test_to_mask_is_work_in_proportion_to_the_text() -> None:
    afl.redact("swordfish", "sword-dance", "ssss-ssss")
    assert_bounded(redacted, lambda size: "s" * size)
    assert_bounded(redacted, lambda size: "sword" * (size // 5))
    assert_bounded(lambda text: beginning(text, MOST_CHARACTERS), lambda size: "swordfish" * (size // 9))
