"""`afl FILE` and `afl compile`: the reference's command, with its texts and codes."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from support.command_line import Afl

SOURCE = "facet A(x: Long)\n"


@pytest.fixture
def source(tmp_path: Path) -> str:
    (tmp_path / "a.afl").write_text(SOURCE)
    return "a.afl"


@pytest.fixture
def library(tmp_path: Path) -> str:
    (tmp_path / "lib.afl").write_text("namespace lib { facet L() }\n")
    return "lib.afl"


def facet_names(text: str) -> list[str]:
    return [facet["name"] for facet in json.loads(text)["facets"]]


@pytest.mark.parametrize("words", [[], ["compile"]])
def test_compiles_to_standard_output(afl: Afl, source: str, words: list[str]) -> None:
    done = afl(*words, source)
    assert (done.code, done.err) == (0, "")
    assert facet_names(done.out) == ["A"]
    assert done.out.endswith("}\n")


def test_compiles_standard_input(afl: Afl) -> None:
    done = afl("--include-provenance", stdin=SOURCE)
    location = json.loads(done.out)["facets"][0]["location"]
    assert location["sourceId"] == "file://<stdin>"
    assert location["provenance"] == {"type": "file", "path": "<stdin>"}


def test_no_words_at_all_compiles_standard_input(afl: Afl) -> None:
    assert facet_names(afl(stdin=SOURCE).out) == ["A"]
    assert facet_names(afl(stdin=f"\N{ZERO WIDTH NO-BREAK SPACE}{SOURCE}").out) == ["A"]  # a byte order mark


@pytest.mark.parametrize("option", ["-o", "--output"])
def test_writes_to_a_file(afl: Afl, source: str, tmp_path: Path, option: str) -> None:
    done = afl(option, "out.json", source)
    assert (done.code, done.out) == (0, "")
    text = (tmp_path / "out.json").read_text()
    assert facet_names(text) == ["A"]
    assert text.endswith("\n")


def test_compact_is_one_line(afl: Afl, source: str) -> None:
    assert afl("--compact", source).out.count("\n") == 1


def test_no_locations(afl: Afl, source: str) -> None:
    assert "location" in afl(source).out
    assert "location" not in afl("--no-locations", source).out


def test_several_sources(afl: Afl, source: str, library: str) -> None:
    done = afl("--primary", source, "--library", library)
    assert done.code == 0
    assert json.loads(done.out)["namespaces"][0]["name"] == "lib"


def test_check_counts_sources(afl: Afl, source: str, library: str) -> None:
    done = afl("--check", "--primary", source, "--library", library)
    assert (done.code, done.out, done.err) == (0, "", "OK: 2 source(s) parsed successfully\n")


def test_a_missing_file(afl: Afl) -> None:
    done = afl("nope.afl")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error[source-error]: File not found: nope.afl\n  hint: ")


def test_a_positional_input_beside_primary(afl: Afl, source: str) -> None:
    done = afl(source, "--primary", source)
    assert done.code == 1
    assert done.err == (
        "error[input-error]: Cannot use positional input with --primary/--library/--mongo/--maven. "
        "Use --primary for the main source file.\n"
    )


def test_a_configuration_file_that_is_not_there(afl: Afl, tmp_path: Path) -> None:
    (tmp_path / "a.afl").write_text("facet A()\n")
    done = afl("a.afl", "--check", "--config", "none.json")
    told = "error[setting-error]: the configuration file is 'none.json'; expected the path of a file, and there is none"
    assert (done.code, done.out) == (1, "")
    assert " ".join(done.err.split()).startswith(told)


def test_a_bad_mongodb_spec(afl: Afl) -> None:
    done = afl("--mongo", "abc")
    assert (done.code, done.err) == (
        1,
        "error[input-error]: Invalid MongoDB spec 'abc'. Expected format: ID:display_name\n",
    )


@pytest.mark.parametrize("spec", ["a:b", "a", "a:b:c:d:e"])
def test_a_bad_maven_spec(afl: Afl, spec: str) -> None:
    done = afl("--maven", spec)
    assert done.code == 1
    assert done.err == (
        f"error[input-error]: Invalid Maven spec '{spec}'. Expected format: group:artifact:version[:classifier]\n"
    )


@pytest.mark.parametrize(
    ("option", "spec", "loader"),
    [("--mongo", "1:x", "MongoDB"), ("--maven", "g:a:1", "Maven"), ("--maven", "g:a:1:c", "Maven")],
)
def test_loaders_that_are_not_there_yet(afl: Afl, option: str, spec: str, loader: str) -> None:
    done = afl(option, spec)
    assert done.code == 1
    assert done.err.startswith(f"error[loader-not-implemented]: {loader} loader not yet implemented")


def test_a_syntax_error_shows_line_and_caret(afl: Afl, tmp_path: Path) -> None:
    (tmp_path / "bad.afl").write_text("facet A(x Long)\n")
    done = afl("bad.afl")
    assert (done.code, done.out) == (1, "")
    first, line, caret = done.err.splitlines()[:3]
    assert first.startswith("error[SYNTAX_UNEXPECTED] bad.afl:1:11: ")
    assert line == "1 | facet A(x Long)"
    assert caret.index("^") == line.index("Long")


def test_check_as_json(afl: Afl, tmp_path: Path) -> None:
    (tmp_path / "bad.afl").write_text("facet A()\nworkflow W() andThen {\n  a = Aa()\n}\n")
    done = afl("check", "bad.afl", "--json")
    told = json.loads(done.out)
    assert (done.code, done.err, told["valid"], told["sources"]) == (1, "", False, ["bad.afl"])
    (found,) = told["findings"]
    assert (found["rule_id"], found["source_id"], found["line"]) == ("REF_UNKNOWN_FACET", "bad.afl", 3)
    assert (found["column"], found["suggested_fix"]) == (7, "did you mean 'A'?")
    (tmp_path / "good.afl").write_text("facet A()\n")
    done = afl("check", "good.afl", "--json")
    assert (done.code, json.loads(done.out)) == (0, {"valid": True, "sources": ["good.afl"], "findings": []})


def test_every_validation_error_is_told(afl: Afl) -> None:
    source = "facet F(a: Long)\nworkflow W() andThen {\n  s = F(a = x.y)\n  t = F(a = z.y)\n}\n"
    done = afl("--check", stdin=source)
    told = [line for line in done.err.splitlines() if line.startswith("error[")]
    assert done.code == 1
    assert [line.partition(" ")[2] for line in told] == [
        "<stdin>:3:13: Reference to undefined step 'x'",
        "<stdin>:4:13: Reference to undefined step 'z'",
    ]


def test_no_validate_only_parses(afl: Afl) -> None:
    source = "facet F(a: Long)\nworkflow W() andThen { s = F(a = x.y) }\n"
    assert afl(stdin=source).code == 1
    done = afl("--no-validate", stdin=source)
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["workflows"][0]["name"] == "W"


def test_an_output_that_cannot_be_written(afl: Afl, source: str) -> None:
    done = afl("-o", "no/such/folder/out.json", source)
    assert done.code == 1
    assert done.err.startswith("error[input-error]: the output cannot be written: ")


def test_standard_input_that_is_no_text(afl: Afl, tmp_path: Path) -> None:
    (tmp_path / "latin.afl").write_bytes(b"facet \xe9()")
    done = afl("latin.afl")
    assert done.code == 1
    assert "latin.afl is not UTF-8 text" in done.err


def test_the_log_file_is_made_and_logging_restored(afl: Afl, source: str, tmp_path: Path) -> None:
    before = logging.getLogger("afl").handlers[:]
    assert afl("--log-level", "DEBUG", "--log-file", "afl.log", source).code == 0
    assert (tmp_path / "afl.log").exists()
    assert logging.getLogger("afl").handlers == before


def test_a_log_file_that_cannot_be_written(afl: Afl, source: str) -> None:
    done = afl("--log-file", "no/such/afl.log", source)
    assert done.code == 1
    assert "no/such/afl.log" in done.err


def test_an_unknown_log_level_is_wrong_usage(afl: Afl, source: str) -> None:
    assert afl("--log-level", "LOUD", source).code == 2


def test_check_takes_several_files_as_one_program(afl: Afl, tmp_path: Path, library: str) -> None:
    (tmp_path / "user.afl").write_text("workflow W() andThen { a = lib.L() }\n")
    done = afl("check", "user.afl", library)
    assert (done.code, done.out, done.err) == (0, "", "OK: 2 source(s) parsed successfully\n")
    assert "Unknown facet 'lib.L'" in afl("check", "user.afl").err
