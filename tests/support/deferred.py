"""Modules that take seconds to import: every test process reads every file of tests, and few run the tests in it."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Deferred:
    """A module by its name, imported when the first of its names is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("_", "pytest")):  # pytest asks what it finds in a file whether it is a fixture
            raise AttributeError(name)
        return getattr(import_module(self._name), name)


anthropic = Deferred("anthropic")
claude_module = Deferred("afl.models.claude")
client_module = Deferred("afl.models.anthropic_client")
openai = Deferred("openai")
