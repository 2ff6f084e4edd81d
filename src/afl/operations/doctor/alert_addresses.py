"""The addresses that alerts are sent to."""

from __future__ import annotations

from afl.operations.alerts.destinations import read_destinations
from afl.operations.doctor.store_checks import Finding, fine


def check_alerts(addresses: str) -> list[Finding]:
    """Whether Apprise can read them; nothing is sent. SettingError, MissingExtraError."""
    found = read_destinations(addresses)
    shown = ", ".join(f"{each.scheme}://" + (f" for {each.which}" if each.which else "") for each in found)
    return fine("alerts", f"they go to {shown}")
