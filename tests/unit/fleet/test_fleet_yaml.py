"""Workflow files: what is read, and what is said about what cannot be."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.properties import tries

from afl.fleet.errors import WorkflowFileError
from afl.fleet.workflow import Overlap, Parameter, ParameterKind, Ray, Retries, Subprocess, UvPython, Workflow
from afl.fleet.workflow_file import read_workflow
from afl.kernel.schedule import CatchUp

EXAMPLE = """
name: Data Pipeline
description: Extract then transform
cron: "0 0 2 * * *"
start_time: 2025-01-20T02:00:00+00:00
tasks:
  extract: {name: Extract, config: !Subprocess {cmd: python, args: ["extract.py", "--table", "customers"]}}
  transform:
    name: Transform
    depends: ["extract"]
    config:
      !UvPython
      script_path: scripts/transform.py
      packages: ["pandas>=2.3.1,<3.0.0"]
"""


def read(text: str) -> Workflow:
    return read_workflow("etl.daily", "workflows/etl/daily.yml", textwrap.dedent(text))


def problems(text: str) -> list[str]:
    with pytest.raises(WorkflowFileError) as caught:
        read(text)
    return [str(problem) for problem in caught.value.problems]


def problem(text: str) -> str:
    [only] = problems(text)
    return only.removeprefix("workflows/etl/daily.yml:")


def with_task(lines: str, head: str = "") -> str:
    """A file with one task whose further keys are given."""
    body = textwrap.indent(textwrap.dedent(lines).strip("\n"), "    ")
    return f"name: W\n{head}tasks:\n  a:\n    name: A\n    config: !Subprocess {{cmd: echo}}\n{body}\n"


def test_the_example_of_the_reference() -> None:
    flow = read(EXAMPLE)
    assert (flow.id, flow.name, flow.description) == ("etl.daily", "Data Pipeline", "Extract then transform")
    assert (flow.cron, flow.start_time) == ("0 0 2 * * *", "2025-01-20T02:00:00+00:00")
    assert flow.path == "workflows/etl/daily.yml"
    assert flow.tasks["extract"].config == Subprocess("python", ("extract.py", "--table", "customers"))
    assert flow.tasks["transform"].config == UvPython(
        "scripts/transform.py", packages=("pandas>=2.3.1,<3.0.0",)
    )
    assert flow.tasks["transform"].depends == ("extract",)
    assert flow.dag.order == ("extract", "transform")


def test_what_documents_call_optional_is_optional() -> None:
    flow = read("name: W\ntasks: {a: {name: A, config: !Subprocess {cmd: echo}}}")
    assert flow.tasks["a"].config == Subprocess("echo")
    assert (flow.cron, flow.start_time, flow.description) == (None, None, None)
    assert (flow.overlap, flow.catch_up, flow.requeues) == (Overlap.ALLOW, CatchUp.NONE, 0)


def test_every_new_key() -> None:
    flow = read(
        """
        name: W
        max_parallel: 3
        overlap: queue
        catch_up: latest
        on_crash: {requeue: 2}
        params:
          table: string
          limit: {type: integer, default: 10, description: rows}
          mode: {default: fast, choices: [fast, slow]}
          ratio: {type: number, default: 0.5}
          dry: {type: boolean, default: false}
        tasks:
          a:
            name: A
            config: !Subprocess {cmd: load, args: ["--table={{ params.table }}", "{{params.limit}}"]}
            env: {MODE: "{{ params.mode }}"}
            working_directory: /srv
            timeout: 5m
            retries: {attempts: 3, backoff: 500ms, factor: 3, max: 1m}
            allow_failure: true
          b:
            name: B
            depends: [a]
            when: always
            timeout: 1.5
            retries: 2
            config: !Ray {function: "jobs:train", args: [x], num_cpus: 2, resources: {special: 1}, address: auto}
        """
    )
    assert (flow.max_parallel, flow.overlap, flow.catch_up, flow.requeues) == (
        3,
        Overlap.QUEUE,
        CatchUp.LATEST,
        2,
    )
    assert flow.params == {
        "table": Parameter(ParameterKind.STRING),
        "limit": Parameter(ParameterKind.INTEGER, 10, "rows"),
        "mode": Parameter(ParameterKind.STRING, "fast", None, ("fast", "slow")),
        "ratio": Parameter(ParameterKind.NUMBER, 0.5),
        "dry": Parameter(ParameterKind.BOOLEAN, False),
    }
    a, b = flow.tasks["a"], flow.tasks["b"]
    assert (a.env, a.working_directory, a.timeout) == ({"MODE": "{{ params.mode }}"}, "/srv", 300.0)
    assert a.retries == Retries(attempts=3, backoff=0.5, factor=3.0, max=60.0)
    assert (a.allow_failure, a.always, b.allow_failure, b.always) == (True, False, False, True)
    assert (b.timeout, b.retries) == (1.5, Retries(attempts=3))
    assert b.config == Ray(
        function="jobs:train", args=("x",), num_cpus=2, resources={"special": 1}, address="auto"
    )


def test_words_and_dates_stay_text() -> None:
    flow = read(with_task("env: {A: yes, B: on, C: 2025-01-20, D: 'true', E: 1:30, F: 0x1F, G: .inf}"))
    assert flow.tasks["a"].env == {
        "A": "yes",
        "B": "on",
        "C": "2025-01-20",
        "D": "true",
        "E": "1:30",
        "F": "0x1F",
        "G": ".inf",
    }


def test_aliases_and_merges() -> None:
    flow = read(
        """
        name: W
        tasks:
          a: &base {name: A, config: !Subprocess {cmd: echo}, timeout: 3}
          b: {<<: *base, name: B, depends: [a]}
        """
    )
    assert (flow.tasks["b"].name, flow.tasks["b"].timeout) == ("B", 3.0)


def test_every_cycle_is_told_at_its_own_line() -> None:
    needs = {"free": "", "a": "b", "b": "a", "tail": "b", "c": "d, e", "d": "c", "e": "c, e"}
    tasks = "".join(
        f"  {name}: {{name: X, depends: [{depends}], config: !Subprocess {{cmd: x}}}}\n"
        for name, depends in needs.items()
    )
    with pytest.raises(WorkflowFileError) as caught:
        read(f"name: W\ntasks:\n{tasks}")
    assert [(problem.line, problem.key, problem.message) for problem in caught.value.problems] == [
        (4, "tasks.a.depends", "forms a cycle: a -> b -> a"),
        (7, "tasks.c.depends", "forms a cycle: c -> d -> c"),
        (7, "tasks.c.depends", "forms a cycle: c -> e -> c"),
        (9, "tasks.e.depends", "forms a cycle: e -> e"),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            with_task("dependencies: [b]"),
            "6: tasks.a.dependencies: is not a key of a task; did you mean 'depends'?",
        ),
        (
            with_task("", "crom: x\n"),
            "2: crom: is not a key of a workflow; did you mean 'cron'?",
        ),
        (
            with_task("depends: [b, exract]\n").replace(
                "tasks:", "tasks:\n  extract: {name: E, config: !Subprocess {cmd: x}}"
            )
            + "  b: {name: B, config: !Subprocess {cmd: x}}\n",
            "5: tasks.a: depends on 'exract', which is not a task of this file; did you mean 'extract'?",
        ),
        (with_task("depends: [a]"), "6: tasks.a.depends: forms a cycle: a -> a"),
        (
            "name: W\ntasks:\n  a: {name: A, depends: [c], config: !Subprocess {cmd: x}}\n"
            "  b: {name: B, depends: [a], config: !Subprocess {cmd: x}}\n"
            "  c: {name: C, depends: [b], config: !Subprocess {cmd: x}}\n",
            "3: tasks.a.depends: forms a cycle: a -> c -> b -> a",
        ),
        (with_task("", 'cron: "* * * * *"\n'), "2: cron: is '* * * * *'; expected 6 fields, seconds first: "),
        (
            with_task("", 'cron: "0 0 25 * * *"\n'),
            "2: cron: cron '0 0 25 * * *': hour field '25': '25' is not among",
        ),
        (with_task("", 'cron: "0 0 2 * * 7"\n'), "2: cron: is '0 0 2 * * 7'; weekdays are 0-6 with Sunday 0"),
        (
            with_task("", 'cron: "@daily"\nparams: {day: string}\n'),
            "2: cron: starts runs without parameters; give 'day' a default",
        ),
        (with_task("").replace("name: W", 'name: "a\\0b"'), "1: name: holds a NUL, which cannot be stored"),
        (with_task("", "start_time: tomorrow\n"), "2: start_time: is 'tomorrow'; expected RFC 3339"),
        (
            with_task("", "start_time: 2025-01-20T02:00:00\n"),
            "2: start_time: is '2025-01-20T02:00:00'; expec",
        ),
        (with_task("", "max_parallel: 0\n"), "2: max_parallel: is 0; expected a whole number of at least 1"),
        (
            with_task("", "overlap: skp\n"),
            "2: overlap: is 'skp'; expected allow, skip, queue; did you mean 's",
        ),
        (
            with_task("", "catch_up: maybe\n"),
            "2: catch_up: is 'maybe'; expected none, latest, all, true or f",
        ),
        (with_task("", "on_crash: restart\n"), "2: on_crash: is 'restart'; expected crashed, requeue"),
        (with_task("", "name: V\n"), "2: name: is given twice"),
        (with_task("timeout: soon"), "6: tasks.a.timeout: is not a duration; expected seconds"),
        (
            with_task("timeout: 0"),
            "6: tasks.a.timeout: is 0 seconds; expected at least 0.001 and less than 1,000,000,000",
        ),
        (with_task("retries: -1"), "6: tasks.a.retries: is -1; expected a whole number of at least 0"),
        (with_task("retries: {attempts: 0}"), "6: tasks.a.retries.attempts: is 0; expected a whole number"),
        (
            with_task("retries: {atempts: 2}"),
            "6: tasks.a.retries.atempts: is not a key of retries; did you mean",
        ),
        (with_task("retries: {factor: 0.5}"), "6: tasks.a.retries.factor: is 0.5; expected a number of at l"),
        (with_task("allow_failure: yes"), "6: tasks.a.allow_failure: is 'yes'; expected true or false"),
        (with_task("when: never"), "6: tasks.a.when: is 'never'; expected always or success"),
        (with_task("env: [A]"), "6: tasks.a.env: is a list; expected a mapping of names to texts"),
        (with_task("env: {A: 1}"), "6: tasks.a.env.A: is 1; expected text (put it in quotes)"),
        (with_task("env: {'A=B': x}"), "6: tasks.a.env.A=B: is not a variable"),
        (
            with_task("description: 5"),
            "6: tasks.a.description: is 5; expected text (put it in quotes)",
        ),
        (
            with_task("", "params: {x: text}\n"),
            "2: params.x: is 'text'; expected string, integer, number, bool",
        ),
        (with_task("", "params: {2x: string}\n"), "2: params.2x: is not a parameter name"),
        (
            with_task("", "params: {x: {type: integer, default: many}}\n"),
            "2: params.x.default: is 'many'; expected a value of the type integer",
        ),
        (
            with_task("", "params: {x: {default: c, choices: [a, b]}}\n"),
            "2: params.x.default: is 'c'; expected one of 'a', 'b'",
        ),
        (
            with_task("env: {A: '{{ params.tabel }}'}", "params: {table: string}\n"),
            "7: tasks.a.env: env.A names the parameter 'tabel', which is none; did you mean 'table'?",
        ),
        (
            with_task("working_directory: '/srv/{{ params.x }}'", "params: {x: string}\n"),
            "7: tasks.a.working_directory: working_directory holds a parameter; they belong into args and env",
        ),
        (
            "name: W\ntasks:\n  a: {name: A, config: !Subprocess {cmd: ''}}\n",
            "3: tasks.a.config.cmd: is empty",
        ),
        ("name: ''\ntasks:\n  a: {name: A, config: !Subprocess {cmd: x}}\n", "1: name: is empty"),
        ("name: W\ntasks: {}\n", "2: tasks: is empty; expected at least one task"),
        ("name: W\n", "1: tasks: is missing; expected a mapping of task ids to tasks"),
        ("tasks: {a: {name: A, config: !Subprocess {cmd: x}}}\n", "1: name: is missing"),
        (
            "name: W\ntasks:\n  a: {name: A}\n",
            "3: tasks.a.config: is missing; expected !Subprocess, !UvPython",
        ),
        (
            "name: W\ntasks:\n  a: {name: A, config: {cmd: x}}\n",
            "3: tasks.a.config: has no tag; expected !Subprocess, !UvPython or !Ray",
        ),
        (
            "name: W\ntasks:\n  a: {name: A, config: !Subproces {cmd: x}}\n",
            "3: tasks.a.config: has the tag '!Subproces'; expected !Subprocess, !UvPython or !Ray; did you mean "
            "'!Subprocess'?",
        ),
        (
            "name: W\ntasks:\n  a: {name: A, config: !Subprocess {cmd: x, args: [1]}}\n",
            "3: tasks.a.config.args[0]: is 1; expected text (put it in quotes)",
        ),
        (
            "name: W\ntasks:\n  a: {name: A, config: !Subprocess {cmd: x, args: text}}\n",
            "3: tasks.a.config.args: is 'text'; expected a list",
        ),
        (
            "name: W\ntasks:\n  a: {name: A, config: !Subprocess {cmd: x, shell: true}}\n",
            "3: tasks.a.config.shell: is not a key of !Subprocess; known are cmd, args",
        ),
        (
            "name: W\ntasks:\n  a: {name: A, config: !UvPython {packages: [x]}}\n",
            "3: tasks.a.config.script_path: is missing",
        ),
        (
            "name: W\ntasks:\n  a: {name: A, config: !UvPython {script_path: x.py, packages: ['--index=x']}}\n",
            "3: tasks.a.config.packages[0]: is '--index=x'; expected a package, and this is an option",
        ),
        (
            "name: W\ntasks:\n  a: {name: A, config: !Ray {args: [x]}}\n",
            "3: tasks.a.config: expected either cmd (a program) or function (module:name)",
        ),
        (
            "name: W\ntasks:\n  a: {name: A, config: !Ray {function: train}}\n",
            "3: tasks.a.config.function: is 'train'; expected module:name",
        ),
        (
            "name: W\nparams: {x: string}\ntasks:\n"
            "  a: {name: A, config: !Subprocess {cmd: /bin/bash, args: [-ec, 'echo {{ params.x }}']}}\n",
            "4: tasks.a.config: config.args[1] would give a parameter to a shell as its program",
        ),
        (
            "name: W\nparams: {x: string}\ntasks:\n"
            "  a: {name: A, config: !Subprocess {cmd: env, args: [bash, -o, pipefail, -c, -e, 'echo {{params.x}}']}}\n",
            "4: tasks.a.config: config.args[5] would give a parameter to a shell as its program",
        ),
        (
            "name: W\nparams: {x: string}\ntasks:\n"
            "  a: {name: A, config: !Subprocess {cmd: sh, args: ['{{ params.x }}', '{{ params.x }}']}}\n",
            "4: tasks.a.config: config.args[0] would give a parameter to a shell as its program",
        ),
        ("name: [\n", "2: is not YAML: "),
        ("- a\n", "1: is a list; expected the keys of a workflow"),
        (
            "name: !!python/object/apply:os.system [x]\ntasks: {a: {name: A, config: !Subprocess {cmd: x}}}",
            "1: name: is a list",
        ),
    ],
)
def test_what_is_wrong_is_said_with_line_and_key(text: str, said: str) -> None:
    assert problem(text).startswith(said)


def test_all_problems_of_a_file_are_told_at_once() -> None:
    found = problems(
        "nme: W\ncron: never\ntasks:\n  a: {name: A, depends: [b], config: !Subprocess {cmd: 1}}\n"
    )
    assert len(found) == 5
    assert [line.split(":")[1] for line in found] == ["1", "1", "2", "4", "4"]


def test_an_empty_file_and_one_that_is_nested_without_end() -> None:
    assert problems("") == ["workflows/etl/daily.yml: is empty; expected the keys of a workflow"]
    assert problems("a: " + "[" * 100_000) == [
        "workflows/etl/daily.yml: is nested deeper than 50 levels",
    ]


def test_aliases_that_unfold_without_end_are_refused() -> None:
    lines = ["name: W", "x0: &x0 {a: 1, b: 2}"]
    lines += [f"x{n}: &x{n} {{a: *x{n - 1}, b: *x{n - 1}, c: *x{n - 1}}}" for n in range(1, 30)]
    task = "tasks: {a: {name: A, config: !Ray {cmd: x, runtime_env: *x29}}}"
    assert any("unfolds to more than" in line for line in problems("\n".join([*lines, task])))


def test_an_alias_that_leads_into_itself_is_refused() -> None:
    text = "name: W\ntasks: {a: {name: A, config: !Ray {cmd: x, runtime_env: &r {a: *r}}}}"
    assert problems(text) == ["workflows/etl/daily.yml: has an alias that leads into itself"]


_PIECES = [
    "&a",
    "*a",
    "!Ray",
    "!x",
    "<<",
    ": ",
    "- ",
    "[",
    "]",
    "{",
    "}",
    "\n",
    "  ",
    "'",
    '"',
    "name",
    "null",
    "1",
    "\x00",
    "\t",
    "|",
]


@tries(400)
@given(
    st.lists(
        st.tuples(st.integers(0, len(EXAMPLE)), st.integers(0, 12), st.sampled_from(_PIECES)), max_size=4
    )
)
def test_whatever_is_in_a_file_it_is_a_workflow_or_a_list_of_problems(
    edits: list[tuple[int, int, str]],
) -> None:
    text = EXAMPLE
    for start, length, piece in edits:
        text = text[:start] + piece + text[start + length :]
    try:
        flow = read(text)
    except WorkflowFileError as error:
        assert error.problems and all(problem.message for problem in error.problems)
    else:
        assert flow.tasks and flow.name


def test_a_shell_may_be_given_parameters_as_arguments() -> None:
    flow = read(
        "name: W\nparams: {x: string}\ntasks:\n"
        "  a: {name: A, config: !Subprocess {cmd: sh, args: [-c, 'echo \"$1\"', sh, '{{ params.x }}']}}\n"
    )
    assert flow.tasks["a"].config == Subprocess("sh", ("-c", 'echo "$1"', "sh", "{{ params.x }}"))


def test_braces_that_are_no_parameter_stay() -> None:
    flow = read("name: W\ntasks: {a: {name: A, config: !Subprocess {cmd: docker, args: ['{{ .Names }}']}}}\n")
    assert flow.tasks["a"].config == Subprocess("docker", ("{{ .Names }}",))
