"""The synchronous client is what the generator makes of the asynchronous one, and both are typed."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from afl.client.async_client import AsyncClient
from afl.client.async_handle import AsyncRunHandle
from afl.client.client import Client
from afl.client.handle import RunHandle
from reference.sync_client import CLIENT, generated


def formatted(text: str) -> str:
    for arguments in (["check", "-q", "--fix-only", "--select", "I"], ["format", "-q"]):
        command = [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", str(CLIENT / "x.py"), "-"]
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return text


def test_the_generated_modules_are_up_to_date() -> None:
    for module, text in generated().items():
        assert module.read_text() == formatted(text), f"run `make docs`: {module.name} is old"


@pytest.mark.parametrize(("ours", "theirs"), [(AsyncClient, Client), (AsyncRunHandle, RunHandle)])
def test_both_have_the_same_methods(ours: type, theirs: type) -> None:
    def methods(kind: type) -> dict[str, list[str]]:
        found = inspect.getmembers(kind, inspect.isfunction)
        return {name: list(inspect.signature(each).parameters) for name, each in found if name[0] != "_"}

    assert methods(ours) == methods(theirs)
    assert not [name for name, each in vars(theirs).items() if inspect.iscoroutinefunction(each)]
