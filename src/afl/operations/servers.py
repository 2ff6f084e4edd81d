"""The local servers of a folder: start, stop, look."""

from __future__ import annotations

from afl.devstack import DEFAULT_FOLDER, DEFAULT_SERVICES, ServerStatus, down, status, up

__all__ = ["DEFAULT_FOLDER", "DEFAULT_SERVICES", "ServerStatus", "down", "status", "up"]
