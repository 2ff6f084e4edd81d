"""The configuration of the MongoDB store: dataclasses, and the places they are loaded from.

`afl.kernel.settings` is the table of every setting; this is the older, smaller face of its MongoDB section.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from afl.kernel.config_file import DEFAULT_CONFIG_FILENAME, find_file, parse_file
from afl.kernel.errors import SettingError
from afl.kernel.mongodb_address import with_login
from afl.kernel.setting_kinds import mask_url
from afl.kernel.settings import read_environment

__all__ = ["DEFAULT_CONFIG_FILENAME", "AFLConfig", "MongoDBConfig", "load_config"]


@dataclass
class MongoDBConfig:
    """How to reach a MongoDB server."""

    url: str = "mongodb://localhost:27017"
    username: str = ""
    password: str = ""
    auth_source: str = "admin"
    database: str = "afl"

    def connection_string(self) -> str:
        """The address with the login in it; a login that the address already has is kept."""
        return with_login(self.url, self.username, self.password, self.auth_source)

    def to_dict(self) -> dict[str, Any]:
        return {
            "url": self.url,
            "username": self.username,
            "password": self.password,
            "auth_source": self.auth_source,
            "database": self.database,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> MongoDBConfig:
        """What `data` leaves out is the default; other keys are not ours."""
        given = {name: data[name] for name in cls().to_dict() if name in data}
        if "authSource" in data:
            given.setdefault("auth_source", data["authSource"])
        for name, value in given.items():
            if not isinstance(value, str):
                raise SettingError(f"mongodb.{name} is a {type(value).__name__}; expected a text")
        return cls(**given)

    @classmethod
    def from_env(cls) -> MongoDBConfig:
        """What AFL_MONGODB_* variables leave out is the default."""
        values = read_environment(os.environ, "mongodb")
        return cls(**{name.removeprefix("mongodb_"): value for name, value in values.items()})

    def __repr__(self) -> str:
        secret = "***" if self.password else ""
        return (
            f"MongoDBConfig(url={mask_url(self.url)!r}, username={self.username!r}, password={secret!r}, "
            f"auth_source={self.auth_source!r}, database={self.database!r})"
        )


@dataclass
class AFLConfig:
    """Everything a configuration file can hold for the MongoDB store."""

    mongodb: MongoDBConfig = field(default_factory=MongoDBConfig)

    def to_dict(self) -> dict[str, Any]:
        return {"mongodb": self.mongodb.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> AFLConfig:
        section = data.get("mongodb", {})
        if not isinstance(section, Mapping):
            raise SettingError(f"mongodb is a {type(section).__name__}; expected an object")
        return cls(mongodb=MongoDBConfig.from_dict(section))

    @classmethod
    def from_env(cls) -> AFLConfig:
        return cls(mongodb=MongoDBConfig.from_env())


def load_config(path: str | Path | None = None) -> AFLConfig:
    """The configuration file that `find_file` finds, and nothing else; without one, the environment."""
    file = find_file(path)
    return AFLConfig.from_dict(parse_file(file)) if file else AFLConfig.from_env()
