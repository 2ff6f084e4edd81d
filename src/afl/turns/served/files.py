"""Files in what a tool of Pydantic AI returned: its card has them as parts, as it has those of other tools."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from afl.kernel.errors import InputError
from afl.models.content import File, FileUrl
from afl.turns.cardbox.cards import Card, NewCard
from afl.turns.cardbox.parts import files_of
from afl.turns.content.keeper import ContentKeeper
from afl.turns.served import codec

FILES = "files"  # in what is stored for Pydantic AI: the places of the files, in the order of the parts
Place = list[str | int]


@dataclass
class TakenOut:
    """JSON data without the bytes of its files, the files, and where they were."""

    data: Any
    files: list[File] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)


def take_out(data: Any) -> TakenOut:
    """Take the bytes of all files out of the JSON form of a result."""
    taken = TakenOut(data)
    taken.data = _walk(data, [], taken)
    return taken


def _walk(value: Any, place: Place, taken: TakenOut) -> Any:
    if isinstance(value, list):
        return [_walk(each, [*place, number], taken) for number, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    file = _file(value)
    if file is None:
        return {name: _walk(each, [*place, name], taken) for name, each in value.items()}
    taken.files.append(file)
    taken.places.append(place)
    return {**value, "data": ""}


def _file(value: Mapping[str, Any]) -> File | None:
    data, kind = value.get("data"), value.get("media_type")
    if value.get("kind") != "binary" or not isinstance(data, str) or not isinstance(kind, str):
        return None
    try:
        file = File(urlsafe_b64decode(data), kind)
    except (binascii.Error, ValueError, InputError):
        return None
    return file if _encoded(file.data) == data else None


def put_back(data: Any, places: Sequence[Place], files: Sequence[bytes]) -> Any:
    """The JSON form of a result with the bytes of its files."""
    whole = deepcopy(data)
    for place, found in zip(places, files, strict=True):
        target = whole
        for step in place:
            target = target[step]
        target["data"] = _encoded(found)
    return whole


async def restored(content: ContentKeeper, card: Card | NewCard) -> Any:
    """What a tool returned, from its card; or raises what it raised to be told to the model."""
    stored = card.content.get(codec.STORED) or {}
    places = stored.get(FILES)
    if not places:
        return codec.result_of(card.content)
    found = []
    for file in files_of(card.content):
        assert not isinstance(file, FileUrl)  # only bytes were taken out
        found.append(file.data if isinstance(file, File) else await content.read(file))
    data = {"value": card.content["result"], "more": stored["more"]}
    whole = put_back(data, places, found)
    more = {**stored, "more": whole["more"]}
    return codec.result_of({**card.content, "result": whole["value"], codec.STORED: more})


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).decode()
