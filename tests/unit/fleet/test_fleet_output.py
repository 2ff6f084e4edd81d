"""Bytes to lines."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from support.properties import tries

from afl.fleet.executors.output import LONGEST_LINE, LineCutter, json_lines


def split(*chunks: bytes) -> list[str]:
    cutter = LineCutter()
    blocks = [*(cutter.feed(chunk) for chunk in chunks), cutter.finish()]
    found: list[str] = []
    for block in blocks:
        if block:
            count, lines = json_lines(block, "| ")
            texts = msgspec.json.decode(lines, type=list[str])
            assert len(texts) == count and all(text.startswith("| ") for text in texts)
            found += [text.removeprefix("| ") for text in texts]
    return found


def test_lines_with_and_without_an_end() -> None:
    assert split(b"a\nb\n") == ["a", "b"]
    assert split(b"a\n\nb") == ["a", "", "b"]
    assert split(b"") == []
    assert split(b"dos\r\nunix\n") == ["dos", "unix"]


def test_characters_that_are_cut_between_reads_stay_whole() -> None:
    data = "grüße\n漢字\n".encode()
    assert split(*(data[index : index + 1] for index in range(len(data)))) == ["grüße", "漢字"]


def test_what_is_no_text_is_replaced() -> None:
    assert split(b"\xff\xfe\x00ok\n") == ["��\x00ok"]


def test_a_line_without_end_comes_in_pieces_of_whole_characters() -> None:
    text = "x" + "ü" * LONGEST_LINE
    lines = split(*(text.encode()[start : start + 1000] for start in range(0, len(text.encode()), 1000)))
    assert "".join(lines) == text
    assert max(len(line.encode()) for line in lines) <= LONGEST_LINE


def test_characters_that_json_escapes_and_the_one_that_stands_in() -> None:
    text = 'quote " backslash \\ \\n tab \t bell \x07 esc \x1b[1m nul \x00 line \u2028'
    assert split(f"{text}\nnext\n".encode()) == [text, "next"]
    assert split(f"{text} \x7f\nnext\n".encode()) == [f"{text} \x7f", "next"]


@tries(200)
@given(st.lists(st.binary(max_size=40), max_size=12))
def test_how_the_bytes_arrive_makes_no_difference(chunks: list[bytes]) -> None:
    assert split(*chunks) == split(b"".join(chunks))
