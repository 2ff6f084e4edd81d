"""AFLConfig and MongoDBConfig: defaults, dictionaries, environment, files and the address they build."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pymongo.uri_parser import parse_uri

from afl.config import DEFAULT_CONFIG_FILENAME, AFLConfig, MongoDBConfig, load_config
from afl.kernel.errors import SettingError


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "CONFIG",
        "MONGODB_URL",
        "MONGODB_USERNAME",
        "MONGODB_PASSWORD",
        "MONGODB_AUTH_SOURCE",
        "MONGODB_DATABASE",
    ):
        monkeypatch.delenv(f"AFL_{name}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def test_defaults() -> None:
    assert DEFAULT_CONFIG_FILENAME == "afl.config.json"
    assert MongoDBConfig() == MongoDBConfig("mongodb://localhost:27017", "", "", "admin", "afl")
    assert load_config() == AFLConfig() == AFLConfig(mongodb=MongoDBConfig())


def test_dictionaries_round_trip() -> None:
    config = AFLConfig(MongoDBConfig("mongodb://h", "ann", "pw", "users", "flows"))
    assert AFLConfig.from_dict(config.to_dict()) == config
    assert config.to_dict()["mongodb"]["auth_source"] == "users"


def test_camel_case_and_partial_dictionaries() -> None:
    config = AFLConfig.from_dict({"mongodb": {"authSource": "users"}, "other": 1})
    assert config.mongodb == MongoDBConfig(auth_source="users")
    assert AFLConfig.from_dict({}) == AFLConfig()


@pytest.mark.parametrize(
    ("document", "named"), [({"mongodb": 1}, "mongodb is a int"), ({"mongodb": {"url": 1}}, "mongodb.url")]
)
def test_a_wrong_type_is_named(document: dict[str, object], named: str) -> None:
    with pytest.raises(SettingError, match=named):
        AFLConfig.from_dict(document)


def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFL_MONGODB_URL", "mongodb://h:1")
    monkeypatch.setenv("AFL_MONGODB_USERNAME", "ann")
    monkeypatch.setenv("AFL_MONGODB_PASSWORD", "pw")
    monkeypatch.setenv("AFL_MONGODB_AUTH_SOURCE", "users")
    monkeypatch.setenv("AFL_MONGODB_DATABASE", "flows")
    assert load_config().mongodb == MongoDBConfig("mongodb://h:1", "ann", "pw", "users", "flows")


def test_a_file_is_the_only_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / DEFAULT_CONFIG_FILENAME).write_text(json.dumps({"mongodb": {"url": "mongodb://file"}}))
    monkeypatch.setenv("AFL_MONGODB_DATABASE", "ignored")
    assert load_config().mongodb == MongoDBConfig(url="mongodb://file")


def test_explicit_path_then_variable_then_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("explicit", "variable"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"mongodb": {"database": name}}))
    (tmp_path / DEFAULT_CONFIG_FILENAME).write_text(json.dumps({"mongodb": {"database": "found"}}))
    assert load_config().mongodb.database == "found"
    monkeypatch.setenv("AFL_CONFIG", str(tmp_path / "variable.json"))
    assert load_config().mongodb.database == "variable"
    assert load_config(tmp_path / "explicit.json").mongodb.database == "explicit"


def test_a_name_without_a_file_leads_to_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / DEFAULT_CONFIG_FILENAME).write_text(json.dumps({"mongodb": {"database": "found"}}))
    monkeypatch.setenv("AFL_CONFIG", str(tmp_path / "missing.json"))
    assert load_config() == AFLConfig()
    assert load_config(str(tmp_path / "also-missing.json")) == AFLConfig()


def test_bad_json_raises(tmp_path: Path) -> None:
    (tmp_path / DEFAULT_CONFIG_FILENAME).write_text("{")
    with pytest.raises(SettingError, match="is not JSON"):
        load_config()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("mongodb://h:1", "mongodb://a%40b:p%3A%2F+w@h:1/?authSource=users"),
        (
            "mongodb://h:1,i:2/db?replicaSet=rs0",
            "mongodb://a%40b:p%3A%2F+w@h:1,i:2/db?replicaSet=rs0&authSource=users",
        ),
        ("mongodb://h?replicaSet=rs0", "mongodb://a%40b:p%3A%2F+w@h/?replicaSet=rs0&authSource=users"),
        ("mongodb+srv://h/?authSource=x", "mongodb+srv://a%40b:p%3A%2F+w@h/?authSource=x"),
        ("mongodb://old:login@h/", "mongodb://old:login@h/"),
    ],
)
def test_the_login_is_built_into_the_address(url: str, expected: str) -> None:
    assert MongoDBConfig(url, "a@b", "p:/ w", "users").connection_string() == expected


def test_the_driver_reads_the_login_back() -> None:
    config = MongoDBConfig("mongodb://h:1,i:2/?replicaSet=rs0", "a@b", "p:/ w+%", "users")
    parsed = parse_uri(config.connection_string())
    assert (parsed["username"], parsed["password"]) == ("a@b", "p:/ w+%")
    assert parsed["options"]["authSource"] == "users" and len(parsed["nodelist"]) == 2


def test_without_a_user_the_address_is_as_given() -> None:
    assert MongoDBConfig("mongodb://h:1").connection_string() == "mongodb://h:1"


def test_the_password_is_not_shown() -> None:
    config = AFLConfig(MongoDBConfig("mongodb://a:hush@h", "b", "hush"))
    assert "hush" not in repr(config)
