"""What a store keeps of errors and logs: without secrets, and error texts of bounded length."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from afl.kernel.error_text import error_text
from afl.kernel.redaction import redacted, redacted_data
from afl.runtime.entities import LogDefinition


def error_record(message: str, kind: str) -> dict[str, Any]:
    """The error of a task or a server."""
    return {"message": error_text(message), "type": kind}


def masked_log(log: LogDefinition) -> LogDefinition:
    """The entry as it is stored; it stays itself if there is nothing to mask."""
    message = redacted(log.message)
    details = redacted_data(log.details) if log.details else log.details
    unchanged = message == log.message and details == log.details
    return log if unchanged else replace(log, message=message, details=details)
