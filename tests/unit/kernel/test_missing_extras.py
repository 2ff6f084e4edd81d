"""How a missing extra is told: by a command that every shell takes as it stands."""

from __future__ import annotations

import importlib.metadata
import re
import shlex
from pathlib import Path

import afl
from afl.kernel.errors import pip_install

_SOURCES = sorted(Path(afl.__file__).parent.rglob("*.py"))
_BARE = re.compile(r"""pip install (?!["'])\S*\[""")


def test_the_command_is_quoted() -> None:
    command = pip_install("mongo")
    assert command == 'pip install "agentflow-afl[mongo]"'
    assert shlex.split(command) == ["pip", "install", "agentflow-afl[mongo]"]


def test_texts_take_the_command_from_one_place() -> None:
    told = {path.name for path in _SOURCES if "pip install" in path.read_text("utf-8")}
    assert told == {
        "errors.py",
        "servers_command.py",
    }  # the latter in a help text, which has to escape its bracket
    assert [path.name for path in _SOURCES if _BARE.search(path.read_text("utf-8"))] == []


def test_extras_that_are_told_exist() -> None:
    known = set(importlib.metadata.metadata("agentflow-afl").get_all("Provides-Extra") or ())
    named = {
        extra
        for path in _SOURCES
        for extra in re.findall(r"pip_install\(['\"](\w+)['\"]\)", path.read_text("utf-8"))
    }
    assert len(named) >= 8 and named <= known
