"""What may come in from outside: names, numbers, texts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from afl.kernel import bounds
from afl.kernel.errors import InputError


@pytest.mark.parametrize("name", ["a", "me@box/AG1", "ünïcode ☃ name", "x" * bounds.LONGEST_NAME])
def test_a_name_by_function_and_by_type(name: str) -> None:
    assert bounds.check_name(name, "it") == name
    assert msgspec.convert(name, bounds.Name) == name


@pytest.mark.parametrize(
    "name", ["", "a\0", "a\n", "\x7f", "\x85", "a\u2028b", "\udc80", "x" * (bounds.LONGEST_NAME + 1)]
)
def test_what_is_no_name_by_function_and_by_type(name: str) -> None:
    with pytest.raises(InputError, match=r"it is .*; expected 1 to 512 characters, no control characters"):
        bounds.check_name(name, "it")
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(name, bounds.Name)
    assert "regex" not in bounds.reason(caught.value)


def test_a_name_may_have_to_do_without_some_characters() -> None:
    assert bounds.is_name("a:b") and not bounds.is_name("a:b", but=":")


@pytest.mark.parametrize(
    ("value", "kind"),
    [(2**31, bounds.Count), (-1, bounds.Position), (2**53 + 1, bounds.Integer), ("\0", bounds.Text)],
)
def test_what_is_out_of_bounds(value: Any, kind: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(value, kind)


def test_a_long_text_is_cut_and_says_so() -> None:
    assert bounds.cut("short") == "short"
    assert bounds.cut("x" * 10, longest=3) == "xxx... (10 characters)"


def test_a_tag_that_is_no_text_is_shown_as_it_is() -> None:
    with pytest.raises(InputError, match="the tag 'n' is 5; expected a text"):
        bounds.check_tags({"n": 5})
