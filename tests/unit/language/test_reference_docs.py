"""docs/language.md tells the truth: its examples compile without a finding and are laid out as the formatter does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from afl.language import CompileError, compile_source
from afl.language.formatter import format_source
from afl.language.parser import parse

REFERENCE = Path(__file__).parents[3] / "docs" / "language.md"
TEXT = REFERENCE.read_text(encoding="utf-8")
EXAMPLES = {
    f"line {TEXT.count(chr(10), 0, match.start()) + 1}": match[1]
    for match in re.finditer(r"```afl\n(.*?)```", TEXT, re.DOTALL)
}


def test_there_is_an_example_for_every_chapter() -> None:
    chapters = [one for one in TEXT.split("\n## ")[1:] if not one.startswith("What the compiler says")]
    assert len(chapters) > 12
    assert [one.split("\n")[0] for one in chapters if "```afl" not in one] == []


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_an_example_compiles_without_a_finding(example: str) -> None:
    assert compile_source(example).diagnostics == []


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES.keys())
def test_formatting_an_example_keeps_its_meaning(example: str) -> None:
    assert parse(format_source(example)) == parse(example)


def test_the_printed_error_is_the_real_one() -> None:
    source = 'event Greet(name: String)\nworkflow W() andThen {\n    a = Gret(name = "x")\n}'
    with pytest.raises(CompileError) as caught:
        compile_source(source, name="hello.afl")
    shown = re.search(r"```text\n(.*?)```", TEXT, re.DOTALL)
    assert shown is not None
    assert str(caught.value) == shown[1].strip()
