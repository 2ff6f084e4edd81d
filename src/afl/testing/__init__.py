"""Testing workflows with pytest: fresh stores, stub handlers, time skipping, a crash matrix.

    def test_an_order_is_charged_once(afl_stubs):
        stubs = afl_stubs({"shop.Charge": {"id": "ch_1"}})
        assert stubs.run("order.afl", amount=5) == {"charge": "ch_1"}
        assert stubs.calls("shop.Charge") == [{"amount": 5}]

`pytest_plugins = ["afl.testing.plugin"]` in conftest.py turns the fixtures on. It is no entry point of the package:
pytest would rewrite the asserts of all of AgentFlow. Everything is loaded when first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from afl.testing.crash_matrix import survives_crashes as survives_crashes
    from afl.testing.stubs import Raises as Raises
    from afl.testing.stubs import Stubs as Stubs
    from afl.testing.stubs import raises as raises
    from afl.testing.time_skipping import TimeSkipping as TimeSkipping

_HOMES = {
    "Raises": "afl.testing.stubs",
    "Stubs": "afl.testing.stubs",
    "TimeSkipping": "afl.testing.time_skipping",
    "raises": "afl.testing.stubs",
    "survives_crashes": "afl.testing.crash_matrix",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
