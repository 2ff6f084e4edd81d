"""Where alerts go: addresses of Apprise, each for everything, for the failures, or for the approvals of one group."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from afl.kernel.control_characters import visible_controls
from afl.kernel.errors import MissingExtraError, SettingError, pip_install
from afl.kernel.redaction import redact

FAILURES = "failures"
_WHICH = re.compile(r"(?P<which>[\w.-]+)=(?=[\w+-]+://)")


class Sender(Protocol):
    """What delivers a text. Apprise does; it logs why it could not."""

    def notify(self, body: str, title: str, notify_type: str) -> object:
        """True in effect if it was delivered."""


@dataclass(frozen=True)
class Destination:
    """One address. `which` is empty for every alert, `failures`, or the group whose approvals it is sent.

    `key` stands for the address where that must not be shown. `scheme` is what people are told of it.
    """

    key: str
    which: str
    scheme: str
    sender: Sender

    def wants(self, group: str) -> bool:
        """Whether it is sent approvals of a group, or failures (an empty group)."""
        return self.which in ("", group or FAILURES)

    def send(self, title: str, body: str, *, is_failure: bool = False) -> bool:
        """Whether it was delivered."""
        kind = "failure" if is_failure else "info"
        return bool(
            self.sender.notify(body=visible_controls(body), title=visible_controls(title), notify_type=kind)
        )


def read_destinations(text: str) -> list[Destination]:
    """The destinations that AFL_ALERTS names, apart by spaces. SettingError, MissingExtraError."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # Apprise imports modules that Python will not have one day
        return [_destination(number, word) for number, word in enumerate(text.split(), 1)]


def _destination(number: int, word: str) -> Destination:
    try:
        import apprise  # noqa: PLC0415  takes long, and needs an extra
    except ModuleNotFoundError as missing:
        raise MissingExtraError(f"alerts are sent by Apprise: {pip_install('alerts')}") from missing
    named = _WHICH.match(word)
    which, address = (named["which"], word[named.end() :]) if named else ("", word)
    scheme, separator, _ = address.partition("://")
    sender = apprise.Apprise()
    if not separator or not sender.add(address):
        shown = f"{scheme}://…" if separator else "a word without ://"
        raise SettingError(
            f"AFL_ALERTS: address {number} ({shown}) is none that Apprise knows; expected addresses such as "
            "mailto://user:password@host, slack://…, json://host/path, apart by spaces, each with GROUP= or "
            f"{FAILURES}= before it if it is for those alone"
        )
    redact(address)
    return Destination(sha256(word.encode()).hexdigest()[:16], which, scheme, sender)
