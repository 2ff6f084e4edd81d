"""Without the packages of its extra, coordination says which extra is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

_IMPORT = """
import sys
sys.modules[{missing!r}] = None
from afl.kernel.errors import MissingExtraError
try:
    import {module}
except MissingExtraError as error:
    print(error)
"""


@pytest.mark.parametrize("missing", ["redis", "pydantic"])
@pytest.mark.parametrize(
    "module", ["afl.coordination", "afl.coordination.connections", "tta_agent_coordination"]
)
def test_an_import_without_the_extra_names_it(module: str, missing: str) -> None:
    code = _IMPORT.format(module=module, missing=missing)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    expected = (
        f'{missing} is required for coordination. Install it with: pip install "agentflow-afl[coordination]"'
    )
    assert done.stdout.strip() == expected
