"""Roles, users and tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.command_line import Afl, afl

from afl.kernel.errors import InputError, NotFoundError, SettingError
from afl.kernel.settings import load_settings
from afl.operations.access import add_user, hash_token, list_users, load_users, remove_user
from afl.operations.roles import Role

__all__ = ["afl"]
GOOD = {"role": "viewer", "token": hash_token("t")}


def test_a_role_allows_what_lower_ones_do_and_a_worker_stands_apart() -> None:
    allowed = {role: {each for each in Role if role.allows(each)} for role in Role}
    assert allowed == {
        Role.VIEWER: {Role.VIEWER},
        Role.OPERATOR: {Role.VIEWER, Role.OPERATOR},
        Role.ADMIN: set(Role),
        Role.WORKER: {Role.WORKER},
    }


def test_users_of_the_settings_and_the_one_of_the_token() -> None:
    users = load_users(load_settings({"users": {"ada": GOOD}, "token": "secret"}, environ={}))
    ada, anybody = users.owner_of("t"), users.owner_of("secret")
    assert ada is not None and (ada.name, ada.role) == ("ada", Role.VIEWER)
    assert anybody is not None and (anybody.name, anybody.role) == ("token", Role.ADMIN)
    assert users.owner_of("other") is None and users.owner_of("") is None
    assert not load_users(load_settings({}, environ={}))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("viewer", "needs a role and a token"),
        ({"role": "viewer"}, "needs a role and a token"),
        ({**GOOD, "more": 1}, "and nothing else"),
        ({**GOOD, "role": "king"}, "the role 'king'; there are viewer, operator, admin"),
        ({**GOOD, "token": "plain"}, "no hash of a token"),
        ({**GOOD, "token": "sha256:" + "x" * 64}, "no hash of a token"),
    ],
)
def test_a_user_that_cannot_be(given: Any, said: str) -> None:
    with pytest.raises((SettingError, InputError), match=said):
        load_users(load_settings({"users": {"ada": given}}, environ={}))


def test_tokens_are_never_shown() -> None:
    settings = load_settings({"users": {"ada": GOOD}, "token": "secret"}, environ={})
    assert "secret" not in repr(settings) and hash_token("t") not in repr(settings)
    with pytest.raises(SettingError) as refused:
        load_settings({}, environ={"AFL_USERS": "{'ada': secret}"})
    assert "secret" not in str(refused.value)


def test_users_are_kept_in_the_file_beside_what_is_there(tmp_path: Path) -> None:
    file = tmp_path / "afl.config.json"
    file.write_text('{"lease_ms": 5000}')
    token = add_user(file, "ada", Role.OPERATOR)
    add_user(file, "bob", Role.VIEWER)
    assert token not in file.read_text()
    settings = load_settings({}, environ={"AFL_CONFIG": str(file)})
    found = load_users(settings).owner_of(token)
    assert found is not None and (found.name, settings.lease_ms) == ("ada", 5_000)
    assert list_users(file) == {"ada": "operator", "bob": "viewer"}
    again = add_user(file, "ada", Role.ADMIN)
    users = load_users(load_settings({}, environ={"AFL_CONFIG": str(file)}))
    assert users.owner_of(token) is None and users.owner_of(again) is not None
    remove_user(file, "ada")
    assert list_users(file) == {"bob": "viewer"}
    with pytest.raises(NotFoundError, match="no user 'ada'; it has bob"):
        remove_user(file, "ada")
    assert json.loads(file.read_text())["lease_ms"] == 5_000


def test_a_new_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    add_user(tmp_path / "new.json", "ada", Role.VIEWER)
    assert (tmp_path / "new.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["", "token", "a b", "a/b", "-a", "x" * 65, "<b>"])
def test_names_that_cannot_be(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="is not a valid user name"):
        add_user(tmp_path / "new.json", name, Role.VIEWER)
    assert not (tmp_path / "new.json").exists()


@pytest.mark.parametrize("command", [["list"], ["remove", "ada"]])
def test_a_named_file_that_is_not_there_is_told_in_one_line(afl: Afl, command: list[str]) -> None:
    done = afl("dashboard", "user", *command, "--config", "none.json")
    told = "error[setting-error]: the configuration file is 'none.json'; expected the path of a file"
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(told)


def test_the_first_user_makes_the_file_that_is_named(
    afl: Afl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert afl("dashboard", "user", "add", "ada", "--config", "mine.json").code == 0
    monkeypatch.setenv("AFL_CONFIG", "ours.json")
    assert afl("dashboard", "user", "add", "bob").code == 0
    assert (list_users(tmp_path / "mine.json"), list_users(tmp_path / "ours.json")) == (
        {"ada": "viewer"},
        {"bob": "viewer"},
    )


def test_users_on_the_command_line(afl: Afl, tmp_path: Path) -> None:
    assert afl("dashboard", "user", "list").err == "No users in afl.config.json\n"
    added = afl("dashboard", "user", "add", "ada", "--role", "operator")
    assert len(added.out.strip()) == 43 and "ada is operator" in added.err
    assert "replaced" not in added.err
    again = afl("dashboard", "user", "add", "ada", "--role", "operator")
    assert again.err.startswith(
        "ada was replaced, and the old token no longer works; ada is operator in afl.config.json; "
    )
    assert afl("dashboard", "user", "list").out == "ada  operator\n"
    assert json.loads(afl("dashboard", "user", "list", "--json").out) == [{"name": "ada", "role": "operator"}]
    assert afl("dashboard", "user", "remove", "ada").code == 0
    assert afl("dashboard", "user", "remove", "ada").code == 1
