"""The JSON of a workflow on the wire."""

from __future__ import annotations

import json

import pytest

from afl.fleet.workflow import (
    Overlap,
    Parameter,
    ParameterKind,
    Ray,
    Retries,
    Subprocess,
    Task,
    UvPython,
    Workflow,
)
from afl.fleet.workflow_json import decode_workflow, encode_workflow, to_data
from afl.kernel.errors import InputError
from afl.kernel.schedule import CatchUp

REFERENCE = """
{"id":"etl.daily","name":"Daily","description":null,"path":"workflows/etl/daily.yml",
 "dag":{"name":"Daily","task_id_node_ix_map":{"a":0,"b":1},
        "task_map":{"a":{"name":"A","description":null,"depends":null,"config":{"Subprocess":{"cmd":"echo","args":["hi"]}}},
                    "b":{"name":"B","description":null,"depends":["a"],
                         "config":{"UvPython":{"script_path":"x.py","is_uv_project":null,"packages":["pandas"],"uv_path":null,"working_directory":null}}}},
        "inner":{"nodes":["a","b"],"node_holes":[],"edge_property":"directed","edges":[[0,1,0]]},
        "first_tasks":["a"]},
 "cron":"0 0 2 * * *","start_time":"2025-01-20T12:30:00+00:00"}
"""
DAILY = Workflow(
    "etl.daily",
    "Daily",
    {
        "a": Task("A", Subprocess("echo", ("hi",))),
        "b": Task("B", UvPython("x.py", packages=("pandas",)), depends=("a",)),
    },
    path="workflows/etl/daily.yml",
    cron="0 0 2 * * *",
    start_time="2025-01-20T12:30:00+00:00",
)


def test_the_reference_reads_what_we_write_and_we_what_it_writes() -> None:
    assert encode_workflow(DAILY) == json.dumps(json.loads(REFERENCE), separators=(",", ":"))
    assert decode_workflow(REFERENCE) == DAILY


def test_everything_we_add_survives_the_wire() -> None:
    flow = Workflow(
        "w",
        "W",
        {
            "a": Task(
                "A",
                Ray(cmd="x", args=("1",), num_gpus=0.5, runtime_env={"pip": ["a"]}),
                env={"A": "b"},
                working_directory="/srv",
                timeout=1.5,
                retries=Retries(3, 0.1, 3.0, 9.0),
                allow_failure=True,
            ),
            "b": Task("B", Subprocess("y"), depends=("a",), always=True),
        },
        max_parallel=2,
        params={"n": Parameter(ParameterKind.INTEGER, 3, "how many", (3, 4))},
        overlap=Overlap.SKIP,
        catch_up=CatchUp.ALL,
        requeues=4,
    )
    assert decode_workflow(encode_workflow(flow)) == flow


def test_old_peers_see_no_key_that_says_nothing() -> None:
    assert set(to_data(DAILY)) == {"id", "name", "description", "path", "dag", "cron", "start_time"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nothing", "a workflow is not JSON"),
        ("[]", "a workflow is list; expected an object"),
        ("{}", "workflow None cannot be read: 'dag'"),
        (REFERENCE.replace('"cmd":"echo"', '"cmd":1'), "workflow 'etl.daily' cannot be read"),
        (
            REFERENCE.replace('"UvPython"', '"Shell"'),
            "task config 'Shell' is not one of Subprocess, UvPython",
        ),
        (REFERENCE.replace('["a"],\n', '["c"],\n'), "workflow 'etl.daily' cannot be run: 'b' depends on 'c'"),
        (
            REFERENCE.replace('"name":"Daily","description"', '"description"'),
            "required positional argument: 'name'",
        ),
    ],
)
def test_what_is_no_workflow_is_refused(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        decode_workflow(text)
    assert said in str(caught.value)
