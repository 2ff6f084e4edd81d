"""Tables fit the terminal: what has no room beside stands below."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from afl.cli.console import Table


def printed(table: Table, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    table.print(console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.fixture
def table() -> Table:
    made = Table("ID", "NAME", "PLACE", "", below=["PLACE", ""])
    made.add("1", Text("Ada"), "London, in a house near the park", "")
    made.add("2", "Grace", "New York", Text("late", "red"))
    return made


def test_columns_are_aligned_and_lines_have_no_tail(table: Table) -> None:
    assert printed(table, 60) == [
        "ID  NAME   PLACE",
        "1   Ada    London, in a house near the park",
        "2   Grace  New York                          late",
    ]


def test_what_does_not_fit_stands_below(table: Table) -> None:
    assert printed(table, 40) == [
        "ID  NAME",
        "  PLACE",
        "1   Ada",
        "  London, in a house near the park",
        "2   Grace",
        "  New York  late",
    ]


def test_only_as_many_columns_move_as_must() -> None:
    made = Table("ID", "PLACE", "NOTE", below=["PLACE", "NOTE"])
    made.add("1", "London", "a house near the park")
    assert printed(made, 40) == ["ID  PLACE   NOTE", "1   London  a house near the park"]
    assert [line.rstrip() for line in printed(made, 31)][:3] == ["ID  PLACE", "  NOTE", "1   London"]
    assert [line.rstrip() for line in printed(made, 9)][:3] == ["ID", "  PLACE", "  NOTE"]


def test_what_is_below_is_folded_under_itself(table: Table) -> None:
    lines = [line.rstrip() for line in printed(table, 20)]
    assert lines[2:5] == ["1   Ada", "  London, in a house", "  near the park"]


def test_a_column_without_heading_and_content_is_left_out() -> None:
    made = Table("A", "")
    made.add("1", "")
    assert printed(made, 3) == ["A", "1"]


def test_wide_letters_count_twice() -> None:
    made = Table("A", "B")
    made.add("日本", "x")
    made.add("abcd", "y")
    assert printed(made, 20) == ["A     B", "日本  x", "abcd  y"]
