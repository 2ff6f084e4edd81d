"""The settings of the fleet: names and defaults of the reference, sources and their order, errors that name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from afl.fleet.settings import FLEET_SETTINGS, FleetSettings, load_fleet_settings, read_dotenv
from afl.kernel.errors import SettingError

NO_FILE = Path("no such file")

REFERENCE = {
    "CDKTR_LOG_LEVEL": "INFO",
    "CDKTR_AGENT_MAX_CONCURRENCY": 5,
    "CDKTR_RETRY_ATTEMPTS": 20,
    "CDKTR_DEFAULT_ZMQ_TIMEOUT_MS": 3000,
    "CDKTR_DEFAULT_ZMQ_REP_FREFRESH_INTERVAL_MS": 3000,
    "CDKTR_PRINCIPAL_HOST": "127.0.0.1",  # the reference listens to the whole world
    "CDKTR_PRINCIPAL_PORT": 5561,
    "CDKTR_LOGS_LISTENING_PORT": 5562,
    "CDKTR_LOGS_PUBLISHING_PORT": 5563,
    "CDKTR_WORKFLOW_DIR": "workflows",
    "CDKTR_WORKFLOW_DIR_REFRESH_FREQUENCY_S": 60,
    "CDKTR_SCHEDULER_START_POLL_FREQUENCY_MS": 500,
    "CDKTR_Q_PERSISTENCE_INTERVAL_MS": 1000,
    "CDKTR_APP_DATA_DIRECTORY": "$HOME/.cdktr",
    "CDKTR_DB_PATH": "$HOME/.cdktr/app.db",
    "CDKTR_TUI_STATUS_REFRESH_INTERVAL_MS": 1000,
    "CDKTR_AGENT_HEARTBEAT_TIMEOUT_MS": 30000,
}


def test_every_variable_of_the_reference_with_its_default() -> None:
    rows = {row.variable: row.default for row in FLEET_SETTINGS}
    assert {name: rows.get(name) for name in REFERENCE} == REFERENCE
    assert load_fleet_settings(environ={}, dotenv=NO_FILE) == FleetSettings()


@pytest.mark.parametrize("row", FLEET_SETTINGS, ids=lambda row: row.variable)
def test_every_row_is_documented_and_its_default_is_a_good_value(row: Any) -> None:
    assert row.variable == f"CDKTR_{row.name.upper()}"
    assert row.doc.endswith(".") and row.kind.expects
    assert row.kind.read(row.default) == row.default


def test_caller_before_environment_before_dotenv_before_default(tmp_path: Path) -> None:
    dotenv = tmp_path / ".env"
    dotenv.write_text("CDKTR_PRINCIPAL_PORT=1\nCDKTR_RETRY_ATTEMPTS=1\nCDKTR_AGENT_MAX_CONCURRENCY=1\n")
    environ = {"CDKTR_PRINCIPAL_PORT": "2", "CDKTR_RETRY_ATTEMPTS": "2"}
    settings = load_fleet_settings({"principal_port": 3, "db_path": None}, environ=environ, dotenv=dotenv)
    found = (settings.principal_port, settings.retry_attempts, settings.agent_max_concurrency)
    assert found == (3, 2, 1) and settings.db_path == "$HOME/.cdktr/app.db"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CDKTR_PRINCIPAL_PORT", "70000"),
        ("CDKTR_RETRY_ATTEMPTS", "many"),
        ("CDKTR_AGENT_MAX_CONCURRENCY", "0"),
        ("CDKTR_LOG_LEVEL", "loud"),
    ],
)
def test_a_bad_value_is_an_error_that_names_it(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(SettingError, match=f"^{name} is '{value}'; expected"):
        load_fleet_settings(environ={name: value}, dotenv=NO_FILE)
    dotenv = tmp_path / ".env"
    dotenv.write_text(f"{name}={value}\n")
    with pytest.raises(SettingError, match=f"env: {name} is '{value}'"):
        load_fleet_settings(environ={}, dotenv=dotenv)


def test_an_unknown_setting_is_an_error() -> None:
    with pytest.raises(SettingError, match="unknown setting 'port'"):
        load_fleet_settings({"port": 1}, environ={}, dotenv=NO_FILE)


def test_lines_of_a_dotenv_file(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text(
        "# comment\n\nA=1\nexport B = two words  # why\nC='quoted # text'\nD=\"x\"  # y\nE=\nnot a line\nF=a#b\n"
    )
    assert read_dotenv(path) == {
        "A": "1",
        "B": "two words",
        "C": "quoted # text",
        "D": "x",
        "E": "",
        "F": "a#b",
    }
    assert read_dotenv(tmp_path / "none") == {}


def test_a_dotenv_file_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_bytes(b"A=\xff\xfe")
    with pytest.raises(SettingError, match="cannot be read"):
        read_dotenv(path)


def test_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    settings = FleetSettings()
    assert settings.database_url == "sqlite:////home/me/.cdktr/app.db"
    assert settings.keys_folder == Path("/home/me/.cdktr/keys")
    assert FleetSettings(db_path="postgresql://me@db/fleet").database_url == "postgresql://me@db/fleet"
    assert FleetSettings(keys_directory="~/k").keys_folder == Path("/home/me/k")
    assert FleetSettings(log_level="WARN").logging_level == "WARNING"


def test_places_of_a_user_without_a_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    with pytest.raises(
        SettingError, match=r"'\$HOME/.cdktr/app.db': this user has no home folder; set CDKTR_APP_DATA"
    ):
        FleetSettings().database_url  # noqa: B018
    assert FleetSettings(app_data_directory="/data").keys_folder == Path("/data/keys")


def test_a_password_is_never_shown() -> None:
    assert "secret" not in repr(FleetSettings(db_path="postgresql://me:secret@db/fleet"))
