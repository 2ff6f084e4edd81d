"""Text from outside costs work in proportion to its length, whatever it is made of."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from afl.fleet.errors import WorkflowFileError
from afl.fleet.protocol import SOH
from afl.fleet.request_reader import parse_request
from afl.fleet.workflow_file import read_workflow
from afl.kernel.cron import Cron, zone_named
from afl.kernel.error_text import error_text
from afl.kernel.ids import time_of
from afl.kernel.near_names import near_name
from afl.kernel.setting_kinds import mask_urls
from afl.language import compile_source
from afl.turns.protocol.subjects import parse_subject
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
        repeated(".a", "event facet F(x: Any)\nworkflow W(a: Json) andThen { s = F(x = $.a", ") }"),
        repeated("1+", _STEP, "1) }"),
        numbered("andThen {{ s{} = F() }}\n", "facet F()\nworkflow W() "),
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


@pytest.mark.parametrize(
    "text",
    [
        repeated("0,", after="0 * * * *"),
        repeated("1-59/2,", after="0 * * * *"),
        repeated("0"),
        repeated("* "),
        repeated("/", "*"),
    ],
)
def test_cron_expressions(text: Made) -> None:
    assert_bounded(Cron.parse, text)


@pytest.mark.parametrize("text", [repeated("A"), repeated("A/"), repeated("../"), repeated("\0")])
def test_zone_names(text: Made) -> None:
    assert_bounded(zone_named, text)


@pytest.mark.parametrize("text", [repeated("a"), repeated("0"), repeated("/"), repeated("\0")])
def test_ids(text: Made) -> None:
    assert_bounded(time_of, text)
    assert_bounded(parse_subject, text)


@pytest.mark.parametrize(
    "text",
    [
        repeated("["),
        repeated("{a: "),
        repeated("- "),
        repeated('\\"', '"'),
        repeated("a"),
        repeated("&a "),
        repeated("? "),
        repeated("<<: {"),
    ],
)
def test_workflow_files(text: Made) -> None:
    assert_bounded(lambda given: read_workflow("w", "w.yml", given), text)


@pytest.mark.parametrize("text", [repeated("<<: *a\n", "a: &a {}\n"), numbered("a{}: 1\n")])
def test_wide_workflow_files(text: Made) -> None:
    assert_bounded(lambda given: read_workflow("w", "w.yml", given), text, SIZES[:2])


@pytest.mark.parametrize("verb", ["PING", "HEARTBEAT", "SHIP", "QUERYLOGS", "FETCHRUN", "WATCHRUN", "NONE"])
def test_fleet_frames(verb: str) -> None:
    for piece in (SOH, "a", "a" + SOH, "9", "[", '{"a":', '"\\u0041'):
        for text in (repeated(piece, f"{verb}{SOH}"), repeated(piece, f"{verb}{SOH}a{SOH}a{SOH}1{SOH}")):
            assert_bounded(lambda given: parse_request(given.encode()), text)


def test_merges_of_merges_end() -> None:
    def chain(count: int) -> str:
        links = (f"a{n + 1}: &a{n + 1} {{<<: [*a{n}, *a{n}]}}\n" for n in range(count))
        return "a0: &a0 {}\n" + "".join(links) + f"<<: *a{count}\n"

    with pytest.raises(WorkflowFileError, match="merges more than 50 mappings in a row"):
        read_workflow("w", "w.yml", chain(2_000))
