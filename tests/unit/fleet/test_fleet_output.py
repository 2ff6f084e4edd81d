"""Bytes to lines."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from support.properties import tries

from afl.fleet.journal import LONGEST_LINE, LineSplitter, json_lines
from afl.fleet.protocol import mark, whole_lines


def payloads(*chunks: bytes) -> list[str]:
    cutter = LineSplitter()
    found: list[str] = []
    for blocks in [*(cutter.feed(chunk) for chunk in chunks), cutter.finish()]:
        for block in blocks:
            start = mark("STDOUT", continues=block.continues)
            count, lines = json_lines(block.lines, start)
            texts = msgspec.json.decode(lines, type=list[str])
            assert len(texts) == count and all(text.startswith(start) for text in texts)
            found += texts
    return found


def split(*chunks: bytes) -> list[str]:
    return whole_lines(payloads(*chunks))


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
    data = text.encode()
    chunks = [data[start : start + 1000] for start in range(0, len(data), 1000)]
    pieces = payloads(*chunks)
    assert [piece.partition(" ")[0] for piece in pieces] == ["STDOUT", "STDOUT+", "STDOUT+"]
    assert max(len(piece.partition(" ")[2].encode()) for piece in pieces) <= LONGEST_LINE
    assert whole_lines(pieces) == [text]
    assert split(*chunks, b"\nnext\n") == [text, "next"]


def test_what_a_program_writes_is_never_taken_for_the_mark_of_a_piece() -> None:
    assert split(b"STDOUT+ a\n+ b\n") == ["STDOUT+ a", "+ b"]


def test_characters_that_json_escapes_and_the_one_that_stands_in() -> None:
    text = 'quote " backslash \\ \\n tab \t notifier \x07 esc \x1b[1m nul \x00 line \u2028'
    assert split(f"{text}\nnext\n".encode()) == [text, "next"]
    assert split(f"{text} \x7f\nnext\n".encode()) == [f"{text} \x7f", "next"]


@tries(200)
@given(st.lists(st.binary(max_size=40), max_size=12))
def test_how_the_bytes_arrive_makes_no_difference(chunks: list[bytes]) -> None:
    assert split(*chunks) == split(b"".join(chunks))
