"""Names that a package offers and that are loaded when they are first asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package.

    `modules` maps modules of the package to the names they have, separated by spaces; `Name:Own` is offered as `Name`
    and called `Own` in its module.
    """
    homes: dict[str, tuple[str, str]] = {}
    for module, names in modules.items():
        for each in names.split():
            name, _, own = each.partition(":")
            homes[name] = f"{package}.{module}", own or name

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, own = homes[name]
        value = getattr(import_module(module), own)
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted({*vars(sys.modules[package]), *homes}), sorted(homes)
