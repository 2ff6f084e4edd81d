"""Text from outside costs work in proportion to its length, whatever it is made of."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from afl.kernel.error_text import error_text
from afl.kernel.near_names import near_name
from afl.kernel.setting_kinds import mask_urls
from afl.language import compile_source
from tests.support.work import SIZES, assert_bounded

Made = Callable[[int], str]


def repeated(piece: str, before: str = "", after: str = "") -> Made:
    """A text of the piece, as long as it is asked for."""
    return lambda size: before + piece * (size // len(piece)) + after


@pytest.mark.parametrize(
    "text",
    [
        repeated("a"),
        repeated("://"),
        repeated("a://"),
        repeated("a:", "a://"),
        repeated("a ", "a:// "),
        repeated("token", "a://h?"),
        repeated("?token", "a://h"),
        repeated("&", "a://h?"),
        repeated("nats://"),
        repeated("tls://x:"),
        repeated("a", "nats://"),
    ],
)
def test_masks(text: Made) -> None:
    assert_bounded(mask_urls, text)
    assert_bounded(error_text, text)


def numbered(piece: str, start: str = "", end: str = "") -> Made:
    """A text of pieces with the numbers 0, 1, 2..., as long as it is asked for."""
    return lambda size: start + "".join(piece.format(n) for n in range(size // len(piece))) + end


def both(first: Made, second: Made) -> Made:
    """Half the one, half the other."""
    return lambda size: first(size // 2) + second(size // 2)


_STEP = "event facet F(x: Any)\nworkflow W() andThen { s = F(x = "


@pytest.mark.parametrize(
    "text",
    [
        repeated("(", _STEP),
        repeated("[", _STEP),
        repeated("#{a: ", _STEP),
        repeated("a[", _STEP),
        repeated("-", _STEP),
        repeated("[", "facet F(x: "),
        repeated("s = F() andThen {", "workflow W() andThen {"),
        repeated("("),
        repeated("}"),
        repeated("a"),
        repeated("a.", _STEP),
        repeated(".1", _STEP + "a"),
        repeated('\\"', '"'),
        repeated("/*"),
        repeated("/**"),
        repeated("// ", "/** x */ ", "z"),
        repeated("facet "),
        repeated("facet a("),
        repeated("namespace a {"),
        repeated(" ", "facet F() with"),
    ],
)
def test_hostile_sources(text: Made) -> None:
    assert_bounded(compile_source, text)


@pytest.mark.parametrize(
    "text",
    [
        repeated(" .a", _STEP + "a", ") }"),
        repeated("1+", _STEP, "1) }"),
        repeated("//\n", "/** x */ ", "z"),
        repeated("99999999999999999999, ", _STEP + "[", "]) }"),
        repeated("with G() ", "facet F() "),
        both(
            numbered("p{}: Any, ", "event facet F(", ")"),
            numbered("s{} = F()\n", "\nworkflow W() andThen {", "}"),
        ),
        both(
            numbered("p{}: Any, ", "event facet F(", ")"),
            numbered("q{} = 1, ", "\nworkflow W() andThen { s = F(", ") }"),
        ),
        both(
            numbered("namespace n{} {{ facet F() }}\n"),
            numbered("namespace m{} {{ facet G() andThen {{ s = F() }} }}\n"),
        ),
        numbered("use n{} ", "namespace n {", "}"),
        both(numbered("facet F{}()\n"), numbered("s{0} = G{0}()\n", "workflow W() andThen {", "}")),
    ],
)
def test_wide_sources(text: Made) -> None:
    assert_bounded(compile_source, text, SIZES[:2])


def test_near_names() -> None:
    assert_bounded(lambda name: near_name(name, [name[1:], name[::-1], *"abc"]), repeated("ab"))
    assert_bounded(lambda text: near_name("abcabcabc", text.split()), numbered("abcabc{} "))
    assert near_name("rum", ["run", "list"]) == "run"
    assert near_name("a" * 101, ["a" * 101]) == ""
