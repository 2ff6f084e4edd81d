"""The Grafana dashboard asks for figures that exist, by labels that they have; and all figures are to be seen on it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from afl.kernel.metrics import _FIGURES, BY_NAME, HISTOGRAM, METRICS

ROOT = Path(__file__).parents[2]
DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy/grafana/agentflow.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = sorted({target["expr"] for panel in PANELS for target in panel["targets"]})
_NAME = re.compile(r"\bafl_[a-z_]+")
_USE = re.compile(r"\b(afl_[a-z_]+)\{([^}]*)\}")
_BY = re.compile(r"by \(([^)]*)\)")
_OWN = {"job", "instance", "le"}  # Prometheus' own, and those of every histogram
_SEAM = re.compile(r"""(?:count|record|_tell_waits)\(\s*"(afl\.[a-z.]+)\"""")


def family(name: str) -> str:
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    return base if base in BY_NAME and BY_NAME[base].kind == HISTOGRAM else name


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_names_exported_metrics_and_their_labels(query: str) -> None:
    used = _NAME.findall(query)
    assert used, "it asks for nothing of ours"
    known: set[str] = set(_OWN)
    for name in used:
        assert family(name) in BY_NAME, name
        assert BY_NAME[family(name)].kind != HISTOGRAM or name.endswith(("_bucket", "_sum", "_count")), name
        known |= set(BY_NAME[family(name)].labels)
    for name, given in _USE.findall(query):
        labels = {each.partition("=")[0].strip("~!= ") for each in given.split(",") if each}
        assert labels <= {*BY_NAME[family(name)].labels, *_OWN}
    asked = {label.strip() for group in _BY.findall(query) for label in group.split(",")}
    assert asked <= known


def test_every_metric_is_on_the_dashboard() -> None:
    shown = {family(name) for query in QUERIES for name in _NAME.findall(query)}
    assert {each.name for each in METRICS} - shown == {"afl_runner_uptime_seconds"}


def test_panels_have_their_place() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24 and panel["title"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken
        taken |= cells


def test_the_code_counts_what_the_table_has() -> None:
    told = {
        name for path in (ROOT / "src/afl").rglob("*.py") for name in _SEAM.findall(path.read_text("utf-8"))
    }
    assert told == set(_FIGURES)


def test_the_page_on_observability_lists_every_metric() -> None:
    page = (ROOT / "docs/observability.md").read_text("utf-8")
    for each in METRICS:
        labels = f" ({', '.join(each.labels)})" if each.labels else ""
        assert f"| `{each.name}`{labels} | {each.kind} | {each.meaning} |" in page
