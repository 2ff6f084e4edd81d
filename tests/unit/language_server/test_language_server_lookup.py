"""What the language server knows of a place, and what it suggests."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from afl.language.types import BUILTINS
from afl.language_server.analysis import Analysis, analyze
from afl.language_server.completion import KEYWORDS, suggest
from afl.language_server.lookup import meaning_at, place_at

ROOT = Path(__file__).parents[3]
NEWS = """namespace news {
    uses shared

    schema Story {
        title: String
    }

    /** Writes a story. @param topic what it is about */
    event facet Write(topic: String, words: Int = 100) => (story: Story, cost: Double)

    workflow Morning(topic: String) => (title: String) andThen {
        draft = Write(topic = $.topic, words = 80) with Retry(attempts = 3)
        copies = shared.Print(text = draft.story.title) andThen foreach reader in ["a", "b"] {
            sent = Send(to = reader, text = $.text)
            yield shared.Print(count = len(sent.id))
        }
        yield Morning(title = draft.story.title)
    }
}
"""
SHARED = """namespace shared {
    facet Print(text: String) => (count: Long)
    event facet Send(to: String, text: String) => (id: String)
}
"""
SOURCES = {"file:///work/shared.afl": SHARED}


def of(text: str = NEWS, others: dict[str, str] = SOURCES) -> Analysis:
    return analyze("file:///work/news.afl", text, lambda: others)


def position(text: str, mark: str) -> tuple[int, int]:
    """Where `|` stands in the mark, as the compiler counts."""
    before, _, after = mark.partition("|")
    at = text.index(before + after) + len(before)
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def test_a_source_is_checked_with_those_that_it_uses() -> None:
    assert of().findings == []
    assert [each.rule_id for each in of(others={}).findings].count("REF_UNKNOWN_FACET") > 0


def test_the_sources_of_a_source_are_found_too() -> None:
    second = SHARED.replace("{\n", "{\n    uses third\n", 1).replace(
        "Print(text: String)", "Print(text: third.Text)"
    )
    third = "namespace third {\n    schema Text {\n        words: String\n    }\n}\n"
    findings = of(others={"file:///work/a.afl": second, "file:///work/b.afl": third}).findings
    assert {each.rule_id for each in findings} == {"ARG_TYPE"}  # Text is known, and not a String


def test_only_the_nearest_source_of_a_namespace_counts() -> None:
    assert of(others={**SOURCES, "file:///elsewhere/shared.afl": SHARED}).findings == []


def test_a_used_source_that_cannot_be_parsed_is_not_held_against_the_user() -> None:
    assert of(others={"file:///work/shared.afl": "namespace shared {"}).findings == []


@pytest.mark.parametrize(
    ("mark", "told", "declared"),
    [
        ("draft = Wr|ite", "event facet Write(topic: String, words: Int = 100)", 9),
        ("draft = Wr|ite", "Writes a story.", 9),
        ("wor|ds = 80", "words: Int = 100", 9),
        ("(topic = $.to|pic", "topic: String", 11),
        ("=> (story: St|ory", "schema Story", 4),
        ("shared.Pr|int(text", "facet Print(text: String)", 2),
        ("title = draft.st|ory", "story: Story", 12),
        ("to = rea|der", "foreach reader", 13),
        ("text = $.te|xt)", "text: String", 2),  # `$` of the block of a step is what the step was given
        ("with Re|try", "facet Retry(attempts: Long = 0", None),
        ("atte|mpts = 3", "attempts: Long = 0", None),
        ("count = le|n(", "len(value)", None),
        ("(topic: Str|ing) =>", "String", None),
    ],
)  # fmt: skip
def test_what_a_name_means(mark: str, told: str, declared: int | None) -> None:
    meaning = meaning_at(of(), *position(NEWS, mark))
    assert meaning is not None
    assert told in meaning.markdown
    assert (meaning.location and meaning.location.line) == declared


HIDDEN = """facet N(n: Long)
workflow W(xs: [Long]) => (all: [Long]) andThen {
    x = N(1)
    a = N(2) andThen foreach x in [x.n + 1] {
        b = N(x + 2)
    }
    c = N(3) andThen {
        x = N(4)
        d = N(x.n + 3)
    }
    e = N(4) andThen repeat x limit x.n + 4 {
        f = N(x.n + 5)
    } until x.n > 6
    yield W(all = [x + 7 for x in [x.n + 8]])
}
"""


@pytest.mark.parametrize(
    ("mark", "line"),
    [("x|.n + 1", 3), ("x| + 2", 4), ("x|.n + 3", 8), ("x|.n + 4", 3), ("x|.n + 5", 11), ("x|.n > 6", 11),
     ("x| + 7", 14), ("x|.n + 8", 3)],
)  # fmt: skip
def test_a_name_means_the_innermost_step_or_variable(mark: str, line: int) -> None:
    meaning = meaning_at(of(HIDDEN), *position(HIDDEN, mark))
    assert meaning is not None
    assert meaning.location is not None
    assert meaning.location.line == line


def test_a_mixin_is_never_a_schema() -> None:
    text = NEWS.replace("uses shared", "schema Retry { times: Int }")
    meaning = meaning_at(of(text), *position(text, "with Re|try"))
    assert meaning is not None
    assert "facet Retry(attempts: Long = 0" in meaning.markdown


@pytest.mark.parametrize("mark", ["name|space news", "draft |= Write", "}\n|}\n", "words = 8|0"])
def test_where_no_name_stands_nothing_is_told(mark: str) -> None:
    assert meaning_at(of(), *position(NEWS, mark)) is None


def test_a_name_that_means_nothing() -> None:
    text = NEWS.replace("Write(topic = $.topic, words = 80)", "Wriet(tpic = $.tpic, words = nobody.x)")
    for mark in ("Wri|et(", "(tp|ic =", "$.tp|ic", "nob|ody.x"):
        assert meaning_at(of(text), *position(text, mark)) is None


@pytest.mark.parametrize(
    ("mark", "first"),
    [
        ("topic = $.|topic", ["topic"]),
        ("text = $.|text", ["text"]),
        ("draft.|story.title) andThen", ["story", "cost"]),
        ("shared.|Print(text", ["Print", "Send"]),
        ("draft = Write(|topic", ["topic", "words", "draft"]),
        ("topic, |words", ["topic", "words", "draft"]),
        ("yield |Morning", ["draft", "copies", "sent"]),
        ("title: |String\n", list(BUILTINS)),
    ],
)  # fmt: skip
def test_what_is_suggested(mark: str, first: list[str]) -> None:
    line, column = position(NEWS, mark)
    before = NEWS[: NEWS.index(mark.replace("|", "")) + mark.index("|")]
    suggested = [each.name for each in suggest(place_at(of(), line, column), before)]
    assert suggested[: len(first)] == first


def test_everything_declared_is_suggested_with_its_declaration() -> None:
    suggested = {each.name: each for each in suggest(place_at(of(), 12, 9), "")}
    assert {"Write", "Print", "Retry", "Story", "len", "yield"} <= suggested.keys()
    assert "Writes a story." in suggested["Write"].about
    assert suggested["Write"].kind == "event facet"


def grammar_keywords() -> set[str]:
    text = (ROOT / "src/afl/language/grammar.lark").read_text()
    words = re.findall(r"^[A-Z_]+\.2: /([A-Za-z]+)(?=\??\(\?!)", text, re.MULTILINE)
    words += re.search(r"^CONST.*\(\?:([a-z|]+)\)", text, re.MULTILINE)[1].split("|")  # type: ignore[index]
    words += re.search(r"^OP:.*\(\?:not\\s\+in\|([A-Za-z|]+)\)", text, re.MULTILINE)[1].split("|")  # type: ignore[index]
    return {*words, "not"}


def test_every_keyword_of_the_grammar_is_suggested() -> None:
    assert set(KEYWORDS) == grammar_keywords() - {"use"}


def test_editors_highlight_every_keyword_and_type() -> None:
    grammar = json.loads((ROOT / "editors/vscode/syntaxes/afl.tmLanguage.json").read_text())
    rules = [re.compile(each["match"]) for each in grammar["repository"]["words"]["patterns"]]
    for word in grammar_keywords() | BUILTINS.keys():
        assert any(rule.fullmatch(word) for rule in rules), word


def test_the_extension_names_files_that_there_are() -> None:
    folder = ROOT / "editors/vscode"
    package = json.loads((folder / "package.json").read_text())
    contributed = package["contributes"]
    named = [
        package["main"],
        contributed["languages"][0]["configuration"],
        contributed["grammars"][0]["path"],
    ]
    assert [each for each in named if not (folder / each).is_file()] == []
    json.loads((folder / "language-configuration.json").read_text())
