"""Scripts that need an extra end with one line when it is not installed."""

from __future__ import annotations

from importlib import metadata

import pytest

from afl.kernel.extras import DISTRIBUTION, missing_requirements, require_extras


def declare(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    monkeypatch.setattr(metadata, "requires", lambda name: list(lines))


def test_what_is_installed_is_not_missing() -> None:
    assert missing_requirements("fleet", "coordination") == []
    require_extras("fleet", "coordination")


def test_what_is_missing_ends_the_program_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    declare(monkeypatch, "msgspec>=0.21", "no-such-thing>=1; extra == 'fleet'", "lark; extra == 'fleet'")
    with pytest.raises(SystemExit) as end:
        require_extras("fleet", "local")
    assert end.value.code == 'no-such-thing not installed: pip install "agentflow-afl[fleet,local]"'


def test_an_extra_that_names_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    declare(
        monkeypatch,
        f'{DISTRIBUTION}[fleet]; extra == "ray"',
        'no-zmq; extra == "fleet"',
        "no-driver; python_version < '3.12' and extra == 'ray'",
        'no-redis; extra == "coordination"',
        'no-zmq[more]; extra == "ray"',
    )
    assert missing_requirements("ray") == ["no-zmq", "no-driver"]
