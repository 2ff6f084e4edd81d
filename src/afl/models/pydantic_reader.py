"""Values of a type that pydantic reads: their JSON schema, and the value of JSON data."""

from __future__ import annotations

from typing import Any

from afl.kernel import codec
from afl.kernel.error_text import text_of
from afl.kernel.errors import InputError, MissingExtraError, pip_install


class PydanticReader:
    """For one type. `what`: whose type it is, for errors."""

    def __init__(self, kind: Any, what: str = "a result") -> None:
        try:
            from pydantic import TypeAdapter  # noqa: PLC0415  comes with an extra
        except ModuleNotFoundError as missing:
            raise MissingExtraError(
                f"pydantic is required for the type of {what}. Install it with: {pip_install('models')}"
            ) from missing
        try:
            self._adapter = TypeAdapter(kind)
            self._adapter.json_schema()
        except (
            Exception
        ) as error:  # pydantic has several for a type that it cannot read, or has no schema for
            raise InputError(f"{what} cannot be a {kind!r}: {error}") from error

    def schema(self, suffix: str = "") -> dict[str, Any]:
        """The schema; `suffix` is put behind the names in its `$defs`."""
        schema = self._adapter.json_schema(ref_template=f"#/$defs/{{model}}{suffix}")
        if "$defs" in schema:
            schema["$defs"] = {f"{name}{suffix}": each for name, each in schema["$defs"].items()}
        return schema

    def parse(self, data: Any) -> Any:
        """The value; InputError says where the data does not fit."""
        from pydantic import ValidationError  # noqa: PLC0415

        text = codec.encode(data, what="the data")
        try:
            return self._adapter.validate_json(text)
        except ValidationError as error:
            told = [
                (".".join(map(str, each["loc"])), each["msg"]) for each in error.errors(include_url=False)
            ]
            raise InputError(
                "; ".join(f"{where}: {said}" if where else said for where, said in told)
            ) from error
        except Exception as error:  # a validator may raise anything
            raise InputError(f"{type(error).__name__}: {text_of(error)}") from error

    def dump(self, value: Any) -> Any:
        """The JSON data of a value."""
        return self._adapter.dump_python(value, mode="json", by_alias=True)
