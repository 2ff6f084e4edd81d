"""Files that a package brings with it. `importlib.resources` gives the same, and takes a while to import."""

from __future__ import annotations

import importlib
from pathlib import Path


def package_folder(package: str) -> Path:
    """The folder of an installed package."""
    file = importlib.import_module(package).__file__
    assert file is not None, f"{package} has no __init__.py"
    return Path(file).parent
