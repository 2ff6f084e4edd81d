"""Files in requests: what they may be, and how they reach each provider through its own client library."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from unit.models.conftest import Opened

from afl.devstack.model_server import uses
from afl.kernel.errors import InputError
from afl.models import File, FileUrl, Message, ModelRejected, Request, Text, Tool, ToolResult
from afl.models.content import FileRef, described, estimated_tokens, file_name
from afl.models.messages import files_in

PIXEL = b"\x89PNG\r\n\x1a\n" + bytes(40)
ENCODED = b64encode(PIXEL).decode()
LOOK = Tool("Look", "Takes a picture.", {"type": "object", "properties": {}})


def blocks(value: Any) -> list[dict[str, Any]]:
    """All objects with a type, however deep."""
    if isinstance(value, list):
        return [found for each in value for found in blocks(each)]
    if not isinstance(value, dict):
        return []
    inner = [found for each in value.values() for found in blocks(each)]
    return [value, *inner] if "type" in value else inner


def test_an_image_reaches_the_wire(opened: Opened, wire: str) -> None:
    model, api = opened("A dot.")
    asked = Message.user("What is in this picture?", File(PIXEL, "image/png", "dot.png"))
    assert model.complete(Request((asked,))).text == "A dot."
    sent = blocks(api.requests[0])
    if wire == "messages":
        source = {"type": "base64", "media_type": "image/png", "data": ENCODED}
        assert next(each for each in sent if each["type"] == "image")["source"] == source
    elif wire == "chat":
        (found,) = [each for each in sent if each["type"] == "image_url"]
        assert found["image_url"]["url"] == f"data:image/png;base64,{ENCODED}"
        assert len(api.requests[0]["messages"]) == 1  # text and image stand in one message
    elif wire == "gemini":
        (contents,) = api.requests[0]["contents"]
        assert {"inlineData": {"data": ENCODED, "mime_type": "image/png"}} in contents["parts"]
    else:
        (found,) = [each for each in sent if each["type"] == "input_image"]
        assert found["image_url"] == f"data:image/png;base64,{ENCODED}"


def test_an_image_of_a_tool_reaches_the_wire(opened: Opened) -> None:
    model, api = opened(uses("Look", {}), "A dot.")
    first = model.complete(Request((Message.user("Look!"),), tools=(LOOK,)))
    result = ToolResult(first.tool_uses[0].id, "(file dot.png)", files=(File(PIXEL, "image/png"),))
    again = Request((Message.user("Look!"), first.as_message(), Message.user(result)), tools=(LOOK,))
    assert model.complete(again).text == "A dot."
    assert api.faults == 0
    assert ENCODED in str(api.requests[1])
    assert "(file dot.png)" in str(api.requests[1])


@pytest.mark.parametrize("wire", ["messages", "chat"], indirect=True)
def test_a_document_and_a_url_reach_the_wire(opened: Opened, wire: str) -> None:
    model, api = opened("Read.")
    pdf = File(b"%PDF-1.4", "application/pdf", "a.pdf")
    page = FileUrl("https://example.com/a.png")
    model.complete(Request((Message.user("Read", pdf, page),)))
    sent = str(api.requests[0])
    assert b64encode(b"%PDF-1.4").decode() in sent
    assert "https://example.com/a.png" in sent


@pytest.mark.parametrize("kind", ["video/mp4", "application/x-unknown", "audio/x-odd", "text/plain"])
@pytest.mark.parametrize("wire", ["chat"], indirect=True)
def test_content_that_a_provider_does_not_take_is_refused(opened: Opened, kind: str) -> None:
    model, api = opened("?")
    with pytest.raises(ModelRejected, match="cannot"):
        model.complete(Request((Message.user("Look", File(b"\xff\xfe", kind)),)))
    assert not api.requests


@pytest.mark.parametrize(
    "given",
    ["image/png\nX-Evil: 1", "image", "", "image/", "/png", "a b/c", "image/" + "x" * 200, "ümlaut/x"],
)
def test_what_is_no_media_type(given: str) -> None:
    with pytest.raises(InputError, match="media type"):
        File(b"", given)


def test_a_media_type_without_its_parameters() -> None:
    assert File(b"", "Text/Plain; charset=utf-8").media_type == "text/plain"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\windows\\a.png", "a.png"),
        ("a\nb\x00.png", "ab.png"),
        ("..", ""),
        ("x/", ""),
        ("y" * 300, "y" * 200),
    ],
)
def test_names_are_names_of_files_only(given: str, name: str) -> None:
    assert file_name(given) == name
    assert File(b"", "image/png", given).name == name


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "javascript:alert(1)", "http://a b", "https://", "ftp://x/y", "http://x\n/"]
)
def test_what_is_no_url_of_a_file(url: str) -> None:
    with pytest.raises(InputError, match="no URL"):
        FileUrl(url)


def test_a_url_has_a_kind_and_a_bound() -> None:
    with pytest.raises(InputError, match="kind"):
        FileUrl("https://x/y", "page")
    with pytest.raises(InputError, match="characters"):
        FileUrl("https://x/" + "y" * 9_000)


def test_a_file_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(PIXEL)
    found = File.of(tmp_path / "dot.png")
    assert (found.data, found.media_type, found.name) == (PIXEL, "image/png", "dot.png")
    assert File.of(tmp_path / "dot.png", "image/gif").media_type == "image/gif"
    assert "89PNG" not in repr(found)
    with pytest.raises(InputError, match="cannot be read"):
        File.of(tmp_path / "none.png")


def test_files_are_described_and_estimated() -> None:
    assert described(File(PIXEL, "image/png", "a.png")) == "(file a.png, image/png, 48 bytes)"
    assert described(FileUrl("https://x/y")) == "(image https://x/y)"
    assert estimated_tokens(FileUrl("https://x/y")) == estimated_tokens(File(PIXEL, "image/png"))
    assert estimated_tokens(FileRef("0" * 64, 3_000, "text/csv")) == 1_000
    assert estimated_tokens(FileRef("0" * 64, 1_000_000, "application/pdf")) == 10_000


def test_files_of_a_request() -> None:
    image, page = File(PIXEL, "image/png"), FileUrl("https://x/y")
    request = Request((Message.user(Text("a"), image), Message.user(ToolResult("1", "", files=(page,)))))
    assert files_in(request) == [image, page]
