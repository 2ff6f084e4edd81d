"""Settings: sources and their order, errors that name what is wrong, hidden secrets, the generated page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl.kernel.config_file import find_file
from afl.kernel.errors import SettingError
from afl.kernel.setting_kinds import mask_url
from afl.kernel.settings import SETTINGS, Settings, load_settings
from reference import pages

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory and a home without any configuration file."""
    for name in ("work", "home"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def write(path: Path, document: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def test_the_page_in_docs_is_up_to_date() -> None:
    assert (ROOT / "docs" / "settings.md").read_text() == pages.settings()


def test_defaults() -> None:
    settings = load_settings(environ={})
    assert settings == Settings()
    assert (settings.store, settings.lease_ms, settings.max_deliveries) == (
        "sqlite:///.afl/afl.db",
        60_000,
        5,
    )
    assert (settings.commit_steps, settings.commit_ms, settings.foreach_window) == (4096, 100, 256)
    assert (settings.doorbell, settings.task_list, settings.log_level) == ("auto", "default", "INFO")
    assert (settings.mongodb_url, settings.mongodb_database) == ("mongodb://localhost:27017", "afl")


@pytest.mark.parametrize("row", SETTINGS, ids=lambda row: row.variable)
def test_every_row_is_documented_and_its_default_is_a_good_value(row: Any) -> None:
    assert row.variable == f"AFL_{row.name.upper()}"
    assert row.doc.endswith(".") and row.kind.expects
    assert row.kind.read(row.default) == row.default


def test_caller_before_environment_before_file_before_default(elsewhere: Path) -> None:
    write(Path("afl.config.json"), {"lease_ms": 1000, "commit_ms": 1000, "commit_steps": 1000})
    environ = {"AFL_LEASE_MS": "2000", "AFL_COMMIT_MS": "2000"}
    settings = load_settings({"lease_ms": 3000, "task_list": None}, environ=environ)
    assert (settings.lease_ms, settings.commit_ms, settings.commit_steps) == (3000, 2000, 1000)
    assert (settings.foreach_window, settings.task_list) == (256, "default")


def test_a_section_of_the_file_in_either_spelling(elsewhere: Path) -> None:
    write(Path("afl.config.json"), {"leaseMs": 500, "mongodb": {"url": "mongodb://h", "authSource": "users"}})
    settings = load_settings(environ={})
    assert (settings.lease_ms, settings.mongodb_url, settings.mongodb_auth_source) == (
        500,
        "mongodb://h",
        "users",
    )


def test_an_empty_variable_counts_as_unset() -> None:
    assert load_settings(environ={"AFL_LEASE_MS": "", "AFL_STORE": ""}) == Settings()


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("AFL_LEASE_MS", "soon", "a whole number from 100 to 3600000"),
        ("AFL_LEASE_MS", "0", "a whole number from 100 to 3600000"),
        ("AFL_LEASE_MS", "1_000", "a whole number"),
        ("AFL_LEASE_MS", "1e4", "a whole number"),
        ("AFL_MAX_DELIVERIES", "0", "from 1 to 1000"),
        ("AFL_STORE", "afl", "an address that begins with sqlite://, memory://"),
        ("AFL_STORE", "memory:", "or a path that ends in .db, .sqlite or .sqlite3"),
        ("AFL_STORE", "mysql://x", "postgresql://"),
        ("AFL_DOORBELL", "maybe", "auto, none or an address that begins with nats:// or tls://"),
        (
            "AFL_SERVER",
            "host:8765",
            "expected an empty text or an address that begins with http:// or https://",
        ),
        ("AFL_LOG_LEVEL", "LOUD", "DEBUG, INFO, WARNING or ERROR"),
        ("AFL_TASK_LIST", "  ", "a text that is not empty"),
    ],
)
def test_a_bad_variable_is_named_with_its_value_and_what_is_expected(
    variable: str, value: str, expected: str
) -> None:
    with pytest.raises(SettingError) as caught:
        load_settings(environ={variable: value})
    text = str(caught.value)
    assert text.startswith(f"{variable} is {value!r}; expected ") and expected in text


def test_a_store_may_be_the_path_of_a_file() -> None:
    assert load_settings(environ={"AFL_STORE": "my flows/other.db"}).store == "sqlite:///my%20flows/other.db"
    assert load_settings({"store": "/var/a.sqlite"}, environ={}).store == "sqlite:////var/a.sqlite"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"lease": 5}, "unknown setting 'lease'; did you mean 'lease_ms'"),
        ({"mongodb": {"urll": "x"}}, "unknown setting 'mongodb.urll'; did you mean 'mongodb.url'"),
        ({"lease_ms": True}, "'lease_ms' is True; expected a whole number"),
        ({"lease_ms": 10.5}, "'lease_ms' is 10.5; expected a whole number"),
        ({"lease_ms": {"a": 1}}, "unknown setting 'lease_ms.a'"),
        ([], "holds a JSON list; expected an object"),
    ],
)
def test_a_bad_file_is_named_with_the_key(document: Any, message: str, elsewhere: Path) -> None:
    path = write(elsewhere / "mine.json", document)
    with pytest.raises(SettingError) as caught:
        load_settings(environ={}, path=path)
    assert str(path) in str(caught.value) and message in str(caught.value)


@pytest.mark.parametrize(
    "data", [b"{", b'{"store": "\xff"}', b'{"a": ' + b"[" * 5000], ids=["open", "not-text", "deep"]
)
def test_a_file_that_is_not_json(elsewhere: Path, data: bytes) -> None:
    (elsewhere / "mine.json").write_bytes(data)
    with pytest.raises(SettingError, match=r"mine.json is not JSON"):
        load_settings(environ={}, path=elsewhere / "mine.json")


def test_a_file_that_was_asked_for_and_does_not_exist() -> None:
    with pytest.raises(SettingError, match="AFL_CONFIG is '/no/such'; expected the path of a file"):
        load_settings(environ={"AFL_CONFIG": "/no/such"})
    with pytest.raises(SettingError, match=r"configuration file is 'none\.json'"):
        load_settings(environ={}, path="none.json")


def test_an_unknown_name_from_the_caller() -> None:
    with pytest.raises(SettingError, match="unknown setting 'stor'; did you mean 'store'"):
        load_settings({"stor": "memory://"}, environ={})


def test_a_user_without_a_home_folder(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    assert find_file(environ={}) is None
    write(elsewhere / "work" / "afl.config.json", {})
    assert find_file(environ={}) is not None


def test_where_a_file_is_looked_for(elsewhere: Path) -> None:
    assert find_file(environ={}) is None
    home = write(elsewhere / "home" / ".afl" / "afl.config.json", {})
    assert find_file(environ={}) == home
    here = write(elsewhere / "work" / "afl.config.json", {})
    found = find_file(environ={})
    assert found is not None and found.resolve() == here
    named = write(elsewhere / "named.json", {})
    assert find_file(environ={"AFL_CONFIG": str(named)}) == named
    assert find_file(environ={"AFL_CONFIG": str(elsewhere / "none")}) is None
    assert find_file(here, environ={"AFL_CONFIG": str(named)}) == here


def test_secrets_are_never_shown() -> None:
    postgres = {
        "AFL_STORE": "postgresql://ann:hush@db/x?sslpassword=hush",
        "AFL_DOORBELL": "nats://bob:hush@n:4222",
    }
    mongodb = {
        "AFL_MONGODB_USERNAME": "ann",
        "AFL_MONGODB_PASSWORD": "hush",
        "AFL_MONGODB_URL": "mongodb://m/",
    }
    for environ in (postgres, mongodb, mongodb | {"AFL_MONGODB_URL": "mongodb://c:hush@m/"}):
        settings = load_settings(environ=environ)
        assert "hush" not in repr(settings) + str(settings.shown())
    assert settings.mongodb_password == "hush"


def test_a_bad_secret_is_not_shown_in_the_error(elsewhere: Path) -> None:
    path = write(elsewhere / "c.json", {"mongodb": {"password": ["hush"]}})
    for environ, file in (
        ({}, path),
        ({"AFL_STORE": "mysql://a:hush@b"}, None),
        ({"AFL_DOORBELL": "ftp://a:hush@b"}, None),
    ):
        with pytest.raises(SettingError) as caught:
            load_settings(environ=environ, path=file)
        assert "hush" not in str(caught.value) and caught.value.__cause__ is None


@given(st.text(st.characters(codec="ascii", exclude_characters="/?#@:", categories=["L", "N"]), min_size=8))
def test_a_password_in_an_address_is_masked(password: str) -> None:
    masked = mask_url(f"postgresql://user:{password}@host:5432/db")
    assert masked == "postgresql://user:***@host:5432/db"


@pytest.mark.parametrize("address", ["nats://hush@n:4222", "tls://hush@n:4222/x"])
def test_a_token_in_an_address_is_masked(address: str) -> None:
    assert mask_url(address) == address.replace("hush", "***")


@pytest.mark.parametrize("token", ["hush\n", "hush\r\n", " hush "])
def test_the_space_around_a_token_is_no_part_of_it(token: str) -> None:
    assert load_settings(environ={"AFL_TOKEN": token}).token == "hush"


@pytest.mark.parametrize("token", ["hu\nsh", "hush\u20ac", "hu\x07sh"])
def test_a_token_that_no_header_takes_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(SettingError, match="printable ASCII") as caught:
        load_settings(environ={"AFL_TOKEN": token})
    assert "hu" not in str(caught.value)


@pytest.mark.parametrize(
    ("variables", "store"),
    [
        ({"URL": "mongodb://h:1"}, "mongodb://h:1"),
        ({"DATABASE": "flows"}, "mongodb://localhost:27017/flows"),
        (
            {"URL": "mongodb://h/other?replicaSet=rs0", "DATABASE": "flows"},
            "mongodb://h/flows?replicaSet=rs0",
        ),
        ({"URL": "mongodb://h?replicaSet=rs0", "DATABASE": "flows"}, "mongodb://h/flows?replicaSet=rs0"),
        (
            {"URL": "mongodb://h", "USERNAME": "ann", "PASSWORD": "p@w", "AUTH_SOURCE": "users"},
            "mongodb://ann:p%40w@h/?authSource=users",
        ),
        (
            {"URL": "mongodb+srv://h", "USERNAME": "ann", "PASSWORD": "pw", "DATABASE": "flows"},
            "mongodb+srv://ann:pw@h/flows?authSource=admin",
        ),
        (
            {"URL": "mongodb://ann:pw@h/users", "DATABASE": "flows"},
            "mongodb://ann:pw@h/flows?authSource=users",
        ),
        ({"URL": "mongodb://ann:pw@h", "DATABASE": "flows"}, "mongodb://ann:pw@h/flows?authSource=admin"),
    ],
)
def test_mongodb_variables_select_the_store(variables: dict[str, str], store: str) -> None:
    environ = {f"AFL_MONGODB_{name}": value for name, value in variables.items()}
    assert load_settings(environ=environ).store == store


def test_the_mongodb_section_of_the_file_selects_the_store(elsewhere: Path) -> None:
    write(Path("afl.config.json"), {"mongodb": {"url": "mongodb://h", "database": "flows"}})
    assert load_settings(environ={}).store == "mongodb://h/flows"
    assert load_settings(environ={"AFL_MONGODB_DATABASE": "other"}).store == "mongodb://h/other"


def test_a_mongodb_section_without_keys_is_refused(elsewhere: Path) -> None:
    write(Path("afl.config.json"), {"mongodb": {}})
    with pytest.raises(SettingError, match=r"unknown setting 'mongodb'; did you mean 'mongodb\.url'"):
        load_settings(environ={})


def test_the_caller_says_which_store_it_is_whatever_else_says_so() -> None:
    environ = {"AFL_MONGODB_URL": "mongodb://h", "AFL_STORE": "sqlite:///a.db"}
    assert load_settings({"store": "memory://"}, environ=environ).store == "memory://"


@pytest.mark.parametrize(
    ("environ", "store"),
    [
        (
            {"AFL_STORE": "mongodb://h/flows", "AFL_MONGODB_USERNAME": "ann", "AFL_MONGODB_PASSWORD": "pw"},
            "mongodb://ann:pw@h/flows?authSource=admin",
        ),
        (
            {
                "AFL_STORE": "mongodb://h/flows",
                "AFL_MONGODB_URL": "mongodb://h",
                "AFL_MONGODB_DATABASE": "flows",
            },
            "mongodb://h/flows",
        ),
    ],
)
def test_a_store_that_names_the_same_database_is_no_conflict(environ: dict[str, str], store: str) -> None:
    assert load_settings(environ=environ).store == store


@pytest.mark.parametrize(
    ("environ", "document", "named"),
    [
        (
            {"AFL_STORE": "sqlite:///a.db", "AFL_MONGODB_URL": "mongodb://h"},
            {},
            ("AFL_STORE is 'sqlite:///a.db'", "AFL_MONGODB_URL", "'mongodb://h'"),
        ),
        (
            {"AFL_STORE": "mongodb://a:hush@g", "AFL_MONGODB_URL": "mongodb://a:hush@h"},
            {},
            ("AFL_STORE is 'mongodb://a:***@g'", "AFL_MONGODB_URL", "'mongodb://a:***@h'"),
        ),
        (
            {"AFL_STORE": "postgresql://db/x", "AFL_MONGODB_PASSWORD": "hush"},
            {},
            ("AFL_STORE is 'postgresql://db/x'", "AFL_MONGODB_PASSWORD"),
        ),
        (
            {"AFL_STORE": "mongodb://h/a", "AFL_MONGODB_DATABASE": "b"},
            {},
            ("AFL_STORE is 'mongodb://h/a'", "AFL_MONGODB_DATABASE", "'mongodb://h/b'"),
        ),
        (
            {"AFL_STORE": "memory://"},
            {"mongodb": {"url": "mongodb://h"}},
            ("AFL_STORE is 'memory://'", "afl.config.json: 'mongodb.url'"),
        ),
        (
            {"AFL_MONGODB_URL": "mongodb://h"},
            {"store": "memory://"},
            ("afl.config.json: 'store' is 'memory://'", "AFL_MONGODB_URL"),
        ),
        (
            {},
            {"store": "memory://", "mongodb": {"database": "flows"}},
            ("afl.config.json: 'store' is 'memory://'", "afl.config.json: 'mongodb.database'"),
        ),
    ],
)
def test_two_stores_are_a_conflict_that_names_both(
    environ: dict[str, str], document: dict[str, Any], named: tuple[str, ...], elsewhere: Path
) -> None:
    write(Path("afl.config.json"), document)
    with pytest.raises(SettingError) as caught:
        load_settings(environ=environ)
    text = str(caught.value)
    assert all(part in text for part in named), text
    assert "hush" not in text
