"""No module imports itself by way of others when it is loaded."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp


def test_there_is_no_import_cycle() -> None:
    graph = grimp.build_graph("afl", exclude_type_checking_imports=True, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        order = list(TopologicalSorter(imports).static_order())
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None
    assert "afl.kernel.errors" in order
