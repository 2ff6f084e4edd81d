"""What we depend on: every package has a lowest version, which `make lowest` tests."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def requirements() -> Iterator[Requirement]:
    for group in (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()):
        yield from (Requirement(each) for each in group)


def test_every_dependency_has_a_lowest_version() -> None:
    bounded = (">=", "==", "~=")
    unbounded = [
        str(each)
        for each in requirements()
        if each.name != PROJECT["name"] and not any(part.operator in bounded for part in each.specifier)
    ]
    assert unbounded == []


def test_starlette_builds_no_path_of_the_host_header() -> None:
    """Versions before do, and others than we look at the address of a request."""
    (starlette,) = [each for each in requirements() if each.name == "starlette"]
    assert "1.0.0" not in starlette.specifier
