"""The pages that are made from the code say what the code says; `make docs` writes them."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from afl.cli.app import COMMANDS
from afl.kernel.errors import AgentFlowError, InputError
from reference.commands import all_commands
from reference.errors import all_errors
from reference.pages import DOCS, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text() == PAGES[name](), "run `make docs`"


def test_every_command_has_its_section_with_examples() -> None:
    found = {command.name: command for command in all_commands()}
    page = (DOCS / "reference-cli.md").read_text()
    assert set(COMMANDS) <= set(found)
    assert [name for name in found if not re.search(rf"^##+ afl {name}$", page, re.MULTILINE)] == []
    assert [name for name, command in found.items() if "Examples" not in command.text] == []


def test_every_error_has_a_code_of_its_own_and_says_what_to_do() -> None:
    found = all_errors()
    assert [code for code, count in Counter(error.code for error in found).items() if count > 1] == []
    assert [error for error in found if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", error.code)] == []
    assert [error for error in found if not error.__doc__ or error.hint[-1] not in ".;"] == []


def test_a_hint_is_inherited_and_a_code_is_not() -> None:
    class OddError(InputError):
        """Odd."""

    assert (OddError.code, OddError.hint) == ("odd-error", InputError.hint)
    assert (AgentFlowError("x").code, str(AgentFlowError("x"))) == ("agent-flow-error", "x")
