"""Reading values of a run while it runs."""

from __future__ import annotations

import pytest
from operated_store import begin, double

from afl.kernel.errors import NotFoundError
from afl.operations.run.query import query
from afl.runtime.memory_store import MemoryStore

SOURCE = """
namespace t {
    event facet Double(n: Long) => (m: Long)
    event facet Half(n: Long) => (m: Long)
    workflow Chain(n: Long) => (m: Long) andThen {
        begun = sys.Publish(name = "progress", value = 0.5)
        a = Double(n = $.n)
        half = sys.Publish(name = "progress", value = #{share: 0.7, m: a.m})
        other = sys.Publish(name = "a", value = "published")
        b = Half(n = a.m)
        yield Chain(m = b.m)
    }
}
"""


def test_published_values_and_results_of_steps(store: MemoryStore) -> None:
    run = begin(store, SOURCE)
    assert query(store, run).values == {"a": "published", "progress": 0.5}
    run = begin(store, SOURCE, Double=double)
    found = query(store, run, "progress")
    assert (found.run, found.state, found.values) == (run, "running", {"progress": {"share": 0.7, "m": 6}})
    assert found.updated["progress"] > 0
    assert query(store, run, "a").values == {"a": "published"}  # rather than the step
    assert query(store, run, "begun").values == {"begun": {}}
    assert query(store, run[:-1], "a").run == run


def test_what_is_not_there(store: MemoryStore) -> None:
    run = begin(store, SOURCE, Double=double)
    for name in ("b", "nothing"):
        with pytest.raises(NotFoundError, match=f"has published no '{name}'.*; it has published a, progress"):
            query(store, run, name)
    with pytest.raises(NotFoundError, match="there is no run zzz"):
        query(store, "zzz")
