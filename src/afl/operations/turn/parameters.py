"""Types of parameters that operations on turns share."""

from __future__ import annotations

from typing import Annotated

from afl.models.content import File
from afl.operations.parameters import about

Files = Annotated[
    list[File] | None,
    about("Images, audio or documents for it: each has its media type, and its bytes in base64."),
]
