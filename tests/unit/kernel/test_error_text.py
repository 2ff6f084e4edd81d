"""The text of an error as it may leave."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from afl.kernel.error_text import MOST_CHARACTERS, error_text
from afl.kernel.errors import InputError


def test_a_short_text_stays_as_it_is() -> None:
    assert error_text(InputError("no such run")) == "no such run"
    assert error_text("x" * MOST_CHARACTERS) == "x" * MOST_CHARACTERS


def test_an_error_without_a_text_has_the_name_of_its_class() -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("there are no words")

    assert [error_text(KeyError()), error_text(Unspeakable())] == ["KeyError", "Unspeakable"]


def test_a_long_text_is_cut_and_says_so() -> None:
    assert error_text("x" * 10_000_000) == "x" * 4_096 + "... (9,995,904 more characters)"


def test_passwords_of_addresses_are_masked() -> None:
    text = "see POSTGRES://me:hush@h/db, nats://hush@a,nats://hush@b (http://h/?q=1&api_token=hush#top)"
    assert error_text(text) == text.replace("hush", "***")


@given(st.integers(0, 40))
def test_a_cut_leaves_no_half_of_a_password(position: int) -> None:
    address = "postgresql://user:hushhushhushhush@host/database"
    text = "x " * ((MOST_CHARACTERS - position) // 2) + address + " y" * 100
    assert "hush" not in error_text(text)


def test_an_address_before_the_cut_is_kept() -> None:
    text = "http://me:hush@host/path " + "word " * 10_000
    assert error_text(text).startswith("http://me:***@host/path word")
