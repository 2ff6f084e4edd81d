"""The compiler as a whole: one call, one error with everything in it, several sources, work in proportion."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import pytest

import afl.ast
import afl.emitter
import afl.loader
import afl.parser
import afl.source
import afl.validator
from afl.kernel.errors import InputError
from afl.language import CompileError, compile_input, compile_source, prelude
from afl.language.ast.declarations import FacetDecl, FacetSig, Program
from afl.language.diagnostics import Diagnostic, render
from afl.language.names import SCHEMA
from afl.language.source import (
    CompilerInput,
    FileOrigin,
    MavenOrigin,
    MongoDBOrigin,
    SourceEntry,
    SourceLoader,
    SourceRegistry,
)
from afl.runtime.program.block import POLICIES


def test_a_good_source_gives_the_program_and_its_warnings() -> None:
    compiled = compile_source(
        "facet N(n: Int) => (o: Int) workflow W() => (o: Int) andThen { a = N(1) }", name="w.afl"
    )
    assert compiled.program["workflows"][0]["name"] == "W"
    assert [(one.rule_id, one.source_id) for one in compiled.diagnostics] == [
        ("RETURN_NEVER_YIELDED", "w.afl")
    ]


def test_a_bad_source_gives_one_error_that_shows_everything() -> None:
    with pytest.raises(CompileError) as caught:
        compile_source("facet A(x: Nope)\nworkflow W() andThen {\n  a = Aa()\n}", name="bad.afl")
    assert isinstance(caught.value, InputError)
    assert [one.rule_id for one in caught.value.diagnostics] == ["REF_UNKNOWN_TYPE", "REF_UNKNOWN_FACET"]
    assert str(caught.value).split("\n")[-4:] == [
        "error[REF_UNKNOWN_FACET] bad.afl:3:7: Unknown facet 'Aa'",
        "3 |   a = Aa()",
        "  |       ^^^^",
        "  hint: did you mean 'A'?",
    ]


def test_a_flood_of_errors_is_counted_not_printed() -> None:
    steps = "\n".join(f"s{n} = Nope{n}()" for n in range(150))
    with pytest.raises(CompileError) as caught:
        compile_source(f"workflow W() andThen {{\n{steps}\n}}")
    assert len(caught.value.diagnostics) == 150
    assert str(caught.value).count("error[REF_UNKNOWN_FACET]") == 100
    assert str(caught.value).endswith("... and 50 more")


def test_syntax_errors_of_all_sources_come_together() -> None:
    entries = [SourceEntry("facet (", FileOrigin("a")), SourceEntry("facet B(\nfacet C()", FileOrigin("b"))]
    with pytest.raises(CompileError) as caught:
        compile_input(CompilerInput(entries))
    assert {one.source_id for one in caught.value.diagnostics} == {"file://a", "file://b"}


def test_sources_see_each_other() -> None:
    library = SourceEntry("namespace lib { event facet F(x: Int) => (y: Int) }", FileOrigin("lib"), True)
    main = SourceEntry("workflow W() => (y: Int) andThen { f = F(1) yield W(y = f.y) }", FileOrigin("main"))
    program = compile_input(CompilerInput([main], [library])).program
    assert program["workflows"][0]["body"]["steps"][0]["call"]["target"] == "lib.F"


def test_rendering_without_source_or_place() -> None:
    assert render(Diagnostic("Bad", rule_id="R")) == "error[R]: Bad"
    assert render(Diagnostic("Bad", 2, rule_id="R")) == "error[R] <string>:2: Bad"
    past_the_end = Diagnostic("Bad", 9, 1, "R", suggested_fix="x")
    assert render(past_the_end, "one line") == "error[R] <string>:9:1: Bad\n  hint: x"


def test_the_built_in_policies() -> None:
    facets = {
        symbol.full_name: [param.name for param in symbol.params]
        for symbol in prelude()
        if symbol.kind != SCHEMA
    }
    steps = {
        "sys.Sleep": ["ms"],
        "sys.Until": ["time"],
        "sys.Publish": ["name", "value"],
        "sys.Tag": ["name", "value"],
    }
    policies = {
        "sys.After": ["step"],
        "sys.Retry": ["attempts", "backoff", "factor", "max", "on", "maxAttempts", "nonRetryable"],
        "sys.Timeout": ["ms", "seconds", "minutes", "hours"],
        "sys.Priority": ["n"],
        "sys.TaskList": ["name"],
        "sys.Concurrency": ["key", "limit"],
        "sys.Rate": ["key", "perMinute"],
        "sys.Agent": ["name", "instructions", "channel"],
        "sys.Fleet": ["name"],
        "sys.Message": ["name", "priority"],
        "sys.Human": ["name", "title", "escalate_to", "escalate_minutes"],
        "sys.Signal": ["name"],
        "sys.Run": ["id", "onParentClose", "taskList", "wait"],
    }
    assert facets == {**steps, **policies}
    assert {symbol.full_name for symbol in prelude() if symbol.is_policy} == set(policies)
    assert {name.removeprefix("sys.") for name in policies} == POLICIES
    assert all(symbol.node.doc for symbol in prelude())


def test_the_built_in_schemas() -> None:
    schemas = {
        symbol.full_name: [param.name for param in symbol.params]
        for symbol in prelude()
        if symbol.kind == SCHEMA
    }
    assert schemas == {"sys.Failure": ["error_type", "message", "index", "element", "step"]}


# ---- sources ------------------------------------------------------------------------------------------------


def test_source_ids() -> None:
    assert FileOrigin("a/b").to_source_id() == "file://a/b"
    assert MongoDBOrigin("c", "n").to_source_id() == "mongodb://c/n"
    assert MavenOrigin("g", "a", "1").to_source_id() == "maven://g/a/1"
    assert MavenOrigin("g", "a", "1", "k").to_source_id() == "maven://g/a/1/k"


def test_primary_sources_come_first_and_are_registered() -> None:
    one, two = SourceEntry("", FileOrigin("1")), SourceEntry("", FileOrigin("2"), True)
    given = CompilerInput(library_sources=[two], primary_sources=[one])
    assert given.all_sources == [one, two]
    registry = SourceRegistry.from_compiler_input(given)
    assert registry.get("file://2") == FileOrigin("2")
    assert registry.get("file://3") is None
    assert registry.register_entry(SourceEntry("", FileOrigin("3"))) == "file://3"


def test_the_loader(tmp_path: Path) -> None:
    path = tmp_path / "a.afl"
    path.write_text("facet Ä()", encoding="utf-8")
    assert SourceLoader.load_file(path, True) == SourceEntry("facet Ä()", FileOrigin(str(path)), True)
    path.write_text("facet Ä()", encoding="utf-8-sig")
    assert SourceLoader.load_file(path).text == "facet Ä()"
    with pytest.raises(FileNotFoundError):
        SourceLoader().load_file(tmp_path / "none")
    with pytest.raises(NotImplementedError, match="MongoDB loader not yet implemented"):
        SourceLoader.load_mongodb("c", "n")
    with pytest.raises(NotImplementedError, match="Maven loader not yet implemented"):
        SourceLoader.load_maven("g", "a", "1")


def test_the_public_modules_offer_the_same_things() -> None:
    assert afl.ast.Program is Program
    assert afl.parser.parse("facet A()") == Program(facets=[FacetDecl(FacetSig("A"))])
    assert afl.emitter.emit_dict(afl.parser.parse(""))["type"] == "Program"
    assert afl.validator.validate(afl.parser.parse("")).is_valid
    assert afl.source.FileOrigin is FileOrigin
    assert afl.loader.SourceLoader is SourceLoader


# ---- work in proportion -------------------------------------------------------------------------------------


def chain(length: int) -> str:
    steps = "\n".join(f"s{n + 1} = N(n = s{n}.n + 1)" for n in range(length))
    return f"facet N(n: Long) workflow W() => (o: Long) andThen {{ s0 = N(0)\n{steps}\nyield W(o = s{length}.n) }}"


def calls_made(text: str) -> int:
    """How many Python functions run while the text is compiled."""
    count = 0

    def tick(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(tick)
    try:
        compile_source(text)
    finally:
        sys.setprofile(None)
    return count


def test_a_statement_costs_the_same_in_a_long_program() -> None:
    calls_made(chain(1))  # builds the parser
    short, long = calls_made(chain(100)) / 100, calls_made(chain(1000)) / 1000
    assert long <= short * 1.05
