"""The dashboard and the HTTP API: a web server over the operations."""

from __future__ import annotations

import importlib.util

from afl.kernel.errors import MissingExtraError, pip_install

_missing = [
    package
    for package, module in (
        ("starlette", "starlette"),
        ("uvicorn", "uvicorn"),
        ("jinja2", "jinja2"),
        ("python-multipart", "python_multipart"),
    )
    if importlib.util.find_spec(module) is None
]
if _missing:
    raise MissingExtraError(
        f"the dashboard needs {', '.join(_missing)}. Install it with: {pip_install('dashboard')}"
    )
