"""Parts of messages as the API of OpenAI has them: text, images, audio and files."""

from __future__ import annotations

import msgspec

from afl.kernel.errors import InputError
from afl.models.content import File, FileUrl
from afl.operations.problems import RequestError
from afl.turns.cardbox.parts import Part, decoded

_AUDIO = {"wav": "audio/wav", "mp3": "audio/mpeg"}


class ImageAddress(msgspec.Struct):
    """`https://...`, or a data URL; `detail` is not heeded."""

    url: str


class Audio(msgspec.Struct):
    """Audio in base64."""

    data: str
    format: str


class Upload(msgspec.Struct):
    """A file as a data URL. Files that were uploaded before are not known here."""

    file_data: str = ""
    filename: str = ""
    file_id: str = ""


class ChatPart(msgspec.Struct):
    """A part of a message."""

    type: str
    text: str = ""
    image_url: ImageAddress | None = None
    input_audio: Audio | None = None
    file: Upload | None = None


def part_of(part: ChatPart) -> Part:
    """A part as we have it; RequestError says what is wrong with it."""
    try:
        if part.type == "text":
            return part.text
        if part.type == "image_url" and part.image_url is not None:
            return _image(part.image_url.url)
        if part.type == "input_audio" and part.input_audio is not None:
            return _audio(part.input_audio)
        if part.type == "file" and part.file is not None:
            return _file(part.file)
    except InputError as error:
        raise RequestError(f"messages: a part of type {part.type}: {error}") from error
    raise RequestError(
        f"messages: a part is {part.type[:80]!r}; text, image_url, input_audio and file are taken, with what they name"
    )


def _image(url: str) -> File | FileUrl:
    return _data_url(url, "") if url.startswith("data:") else FileUrl(url, "image")


def _audio(audio: Audio) -> File:
    if audio.format not in _AUDIO:
        raise InputError(f"format is {audio.format[:80]!r}; expected one of {', '.join(_AUDIO)}")
    return File(decoded(audio.data, "input_audio"), _AUDIO[audio.format])


def _file(file: Upload) -> File:
    if not file.file_data:
        raise InputError("there is no file_data; a file is sent with its bytes")
    return _data_url(file.file_data, file.filename)


def _data_url(url: str, name: str) -> File:
    about, comma, data = url.removeprefix("data:").partition(",")
    media_type, *parameters = about.split(";")
    if not url.startswith("data:") or not comma or "base64" not in parameters:
        raise InputError("it is no data URL: expected data:MEDIA/TYPE;base64,...")
    return File(decoded(data, "a data URL"), media_type, name)
