"""`afl run` and `afl resume`: results, pauses, failures, and inputs that leave nothing behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.command_line import Afl

from afl.runtime.store import open_store


def stored_runs(folder: Path) -> int:
    file = folder / ".afl" / "afl.db"
    if not file.exists():
        return 0
    store = open_store(f"sqlite:///{file}")
    try:
        return len(store.get_runs())
    finally:
        store.close()


def result(text: str) -> Any:
    return json.loads(text)


def test_prints_the_outputs_as_json(afl: Afl, doubling: str, agents: str, tmp_path: Path) -> None:
    done = afl("run", doubling, "--input", "n=5", "--agent", agents)
    assert done.code == 0
    assert result(done.out) == {"m": 20, "label": "x"}
    assert "a = t.Double: completed" in done.err
    assert stored_runs(tmp_path) == 1


def test_quiet_says_nothing_but_the_result(afl: Afl, doubling: str, agents: str) -> None:
    done = afl("run", doubling, "-q", "-i", "n=5", "-a", agents)
    assert (done.code, done.err) == (0, "")


def test_json_wraps_the_outputs(afl: Afl, doubling: str, agents: str) -> None:
    done = afl("run", doubling, "--json", "-i", "n=5", "-a", agents)
    told = result(done.out)
    assert (told["status"], told["outputs"]["m"], len(told["run"])) == ("COMPLETED", 20, 26)


@pytest.mark.parametrize(
    ("given", "label"), [("42", "42"), ('"quoted"', "quoted"), ("null", "null"), ("a=b", "a=b"), ("", "")]
)
def test_a_string_input_stays_a_string(afl: Afl, doubling: str, agents: str, given: str, label: str) -> None:
    done = afl("run", doubling, "-i", "n=1", "-i", f"label={given}", "-a", agents)
    assert result(done.out)["label"] == label


def test_inputs_from_a_file_yield_to_those_typed(
    afl: Afl, doubling: str, agents: str, tmp_path: Path
) -> None:
    (tmp_path / "in.json").write_text('{"n": 1, "label": "file"}')
    done = afl("run", doubling, "--inputs", "in.json", "-i", "n=3", "-a", agents)
    assert result(done.out) == {"m": 12, "label": "file"}


def test_the_workflow_is_named_when_there_are_several(afl: Afl, tmp_path: Path) -> None:
    (tmp_path / "two.afl").write_text(
        "namespace a { workflow W() => (x: Long) andThen { yield W(x = 1) } }\n"
        "namespace b { workflow V() => (x: Long) andThen { yield V(x = 2) } }\n"
    )
    assert result(afl("run", "two.afl", "V").out) == {"x": 2}
    assert result(afl("run", "two.afl", "a.W").out) == {"x": 1}
    done = afl("run", "two.afl")
    assert done.code == 1
    assert "two.afl declares several workflows: a.W, b.V; name the one to run, after the file" in done.err


def test_libraries_are_part_of_the_program(afl: Afl, tmp_path: Path) -> None:
    (tmp_path / "main.afl").write_text(
        "workflow W() => (y: Long) andThen { a = lib.Three()  yield W(y = a.x) }"
    )
    (tmp_path / "lib.afl").write_text(
        "namespace lib { facet Three() => (x: Long) andThen { yield Three(x = 3) } }"
    )
    assert result(afl("run", "main.afl", "--library", "lib.afl").out) == {"y": 3}


def test_with_libraries_a_failure_names_no_file_rather_than_a_wrong_one(afl: Afl, tmp_path: Path) -> None:
    (tmp_path / "main.afl").write_text("workflow W() andThen {\n  a = lib.Bad(n = 0)\n}\n")
    (tmp_path / "lib.afl").write_text(
        "namespace lib { facet Bad(n: Long) => (x: Long) andThen {\n\n  yield Bad(x = 1 % $.n) } }"
    )
    told = afl("run", "main.afl", "--library", "lib.afl").err
    assert "error[EvaluationError] <source>:3:17: Division by zero" in told
    assert "main.afl" not in told


def test_a_run_without_agent_pauses_and_says_how_to_go_on(afl: Afl, doubling: str, agents: str) -> None:
    done = afl("run", doubling, "-i", "n=5")
    told = result(done.out)
    assert done.code == 0
    assert told["status"] == "PAUSED"
    assert told["waiting_for"] == [{"facet": "t.Double", "steps": 1}]
    assert 'no handler here for t.Double; mark a function with @handler("t.Double")' in done.err
    assert f"Continue with: afl resume {told['run']} --agent MODULE" in done.err
    again = afl("resume", told["run"], "--agent", agents)
    assert again.code == 0
    assert result(again.out) == {"m": 20, "label": "x"}


def test_a_handler_of_almost_that_name_is_pointed_out(afl: Afl, doubling: str, tmp_path: Path) -> None:
    (tmp_path / "typo_agents.py").write_text(
        'from afl import handler\n@handler("t.Duoble")\ndef d(n): return {"m": n}\n'
    )
    done = afl("run", doubling, "-i", "n=5", "-a", "typo_agents.py")
    assert "no handler here for t.Double; there is one for t.Duoble" in done.err
    assert "typo_agents.py:2: it is the handler of t.Duoble, which is not an event facet" in done.err


def test_a_failure_names_step_facet_place_and_cause(afl: Afl, doubling: str, agents: str) -> None:
    done = afl("run", doubling, "-i", "n=13", "-a", agents)
    assert (done.code, done.out) == (1, "")
    told = [line.strip() for line in done.err.splitlines()]
    assert "step   a = t.Double" in told
    assert "4 |         a = Double(n = $.n)" in told
    assert "error[ValueError] doubling.afl:4:9: thirteen is not doubled" in told


def test_a_failure_as_json(afl: Afl, doubling: str, agents: str) -> None:
    told = result(afl("run", doubling, "--json", "-i", "n=13", "-a", agents).out)
    assert told["status"] == "ERROR"
    assert (told["error"]["step"], told["error"]["line"]) == ("a", 4)


def test_a_result_that_does_not_fit_names_the_field(afl: Afl, doubling: str, agents: str) -> None:
    done = afl("run", doubling, "-i", "n=14", "-a", agents)
    assert done.code == 1
    assert "return field 'm': expected Long, got String 'fourteen'" in done.err


def test_division_by_zero_has_a_place(afl: Afl, tmp_path: Path) -> None:
    (tmp_path / "div.afl").write_text(
        "workflow D(b: Long) => (q: Double) andThen {\n  yield D(q = 1 / $.b)\n}\n"
    )
    done = afl("run", "div.afl", "-i", "b=0")
    assert done.code == 1
    assert "div.afl:2:15" in done.err
    assert "Division by zero" in done.err
    assert "div.afl:2:15" in afl("run", "div.afl", "-i", "b=null").err


def test_foreach_over_no_list(afl: Afl, tmp_path: Path) -> None:
    (tmp_path / "each.afl").write_text(
        "workflow E(j: Json) => (y: [Long]) andThen foreach x in $.j { yield E(y = [1]) }\n"
    )
    done = afl("run", "each.afl", "-i", "j=5")
    assert done.code == 1
    assert "foreach needs a list or a map, got Long" in done.err
    assert "each.afl:1:" in done.err


WRONG_INPUTS = {
    "missing": (["run", "doubling.afl"], "input 'n' is missing"),
    "extra": (["run", "doubling.afl", "-i", "n=1", "-i", "lable=x"], "did you mean 'label'?"),
    "ill-typed": (["run", "doubling.afl", "-i", "n=one"], "expected Long, got String 'one'"),
    "twice": (["run", "doubling.afl", "-i", "n=1", "-i", "n=2"], "input 'n' is given twice"),
    "no such workflow": (["run", "doubling.afl", "Twcie", "-i", "n=1"], "did you mean 't.Twice'?"),
    "no such file": (["run", "nope.afl"], "File not found: nope.afl"),
    "no inputs file": (["run", "doubling.afl", "--inputs", "nope.json"], "File not found: nope.json"),
    "inputs are no object": (
        ["run", "doubling.afl", "--inputs", "list.json"],
        "list.json holds no JSON object",
    ),
    "inputs are a list": (["run", "doubling.afl", "--inputs", "[1]"], "--inputs holds no JSON object"),
    "inputs are no JSON": (["run", "doubling.afl", "--inputs", "broken.json"], "broken.json is not JSON"),
    "no agent file": (["run", "doubling.afl", "-i", "n=1", "-a", "nope.py"], "nope.py does not exist"),
    "too large": (["run", "doubling.afl", "--inputs", "large.json"], "more than the limit of 8,388,608"),
    "syntax": (["run", "syntax.afl"], "syntax.afl:1:10"),
    "types": (["run", "types.afl"], "must be Long, got String"),
    "no workflow": (["run", "facets.afl"], "facets.afl declares no workflow"),
}


@pytest.mark.parametrize("case", WRONG_INPUTS)
def test_wrong_input_is_told_and_leaves_nothing_behind(
    afl: Afl, doubling: str, tmp_path: Path, case: str
) -> None:
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "broken.json").write_text('{"n": ')
    (tmp_path / "large.json").write_text(json.dumps({"n": 1, "label": "x" * 9_000_000}))
    (tmp_path / "syntax.afl").write_text("workflow (")
    (tmp_path / "types.afl").write_text('facet F(n: Long)\nworkflow W() andThen { a = F(n = "x") }')
    (tmp_path / "facets.afl").write_text("facet F()")
    args, message = WRONG_INPUTS[case]
    done = afl(*args)
    assert (done.code, done.out) == (1, "")
    assert message in done.err
    assert not (tmp_path / ".afl").exists()


def test_an_input_without_value_is_wrong_usage(afl: Afl, doubling: str) -> None:
    done = afl("run", doubling, "-i", "n")
    assert done.code == 2
    assert "name=value" in done.err


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite:///no/such/folder/x.db", "does not exist; create it"),
        ("postgresql://127.0.0.1:1/x", "check that the server runs"),
        ("nonsense://x", "expected an address that begins with sqlite://"),
        ("sqlite:///junk.db", "is not an SQLite database"),
    ],
)
def test_a_store_that_cannot_be_used(afl: Afl, doubling: str, tmp_path: Path, url: str, message: str) -> None:
    (tmp_path / "junk.db").write_text("this is not a database, whatever it is called\n" * 50)
    done = afl("run", doubling, "-i", "n=1", "--store", url)
    assert (done.code, done.out) == (1, "")
    assert message in done.err


def test_a_payload_over_the_limit_fails_the_step(afl: Afl, tmp_path: Path, doubling: str) -> None:
    (tmp_path / "large_agents.py").write_text(
        'from afl import handler\n@handler("t.Double")\ndef d(n): return {"m": n, "x": "x" * 9_000_000}\n'
    )
    done = afl("run", doubling, "-i", "n=1", "-a", "large_agents.py")
    assert done.code == 1
    assert "more than the limit of 8,388,608" in done.err


def test_resuming_what_is_over_prints_its_result_again(afl: Afl, doubling: str, agents: str) -> None:
    run = result(afl("run", doubling, "--json", "-i", "n=5", "-a", agents).out)["run"]
    done = afl("resume", run)
    assert (done.code, result(done.out)["m"]) == (0, 20)


def test_resuming_an_unknown_run_lists_the_latest(afl: Afl, doubling: str, agents: str) -> None:
    run = result(afl("run", doubling, "--json", "-i", "n=5", "-a", agents).out)["run"]
    done = afl("resume", "zzz")
    assert done.code == 1
    assert "there is no run zzz in this store" in done.err
    assert run in done.err


def test_resuming_in_a_folder_without_store_makes_none(afl: Afl, tmp_path: Path) -> None:
    done = afl("resume", "zzz")
    assert done.code == 1
    assert f"there is no store {tmp_path}/.afl/afl.db yet" in done.err
    assert not (tmp_path / ".afl").exists()
