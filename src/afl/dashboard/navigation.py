"""The sections of the dashboard, and the numbers beside them."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from afl.operations.client import StoreClient
from afl.operations.run.badges import Badges
from afl.operations.run.badges import badges as count


@dataclass(frozen=True)
class Section:
    """One entry of the navigation. `key` goes there after `g`."""

    name: str
    title: str
    path: str
    key: str


@dataclass(frozen=True)
class Group:
    """Entries that belong together."""

    title: str
    sections: tuple[Section, ...]


NAVIGATION = (
    Group(
        "Work",
        (
            Section("runs", "Runs", "/runs", "r"),
            Section("start", "Start", "/start", "s"),
            Section("flows", "Flows", "/flows", "o"),
            Section("approvals", "Approvals", "/approvals", "a"),
            Section("schedules", "Schedules", "/schedules", "c"),
        ),
    ),
    Group(
        "Hands",
        (
            Section("tasks", "Tasks", "/tasks", "t"),
            Section("servers", "Servers", "/servers", "w"),
            Section("turns", "Turns", "/turns", "u"),
            Section("fleet", "Fleet", "/fleet", "f"),
            Section("messages", "Messages", "/messages", "m"),
        ),
    ),
    Group("Records", (Section("audit", "Audit", "/audit", "l"),)),
)


def badges(request: Request) -> Badges:
    """The numbers, for somebody who may see them; none on the login page."""
    client = client_of_request(request)
    return client.call(count) if client is not None else Badges()


def page_of_ours(path: str) -> bool:
    """Whether it is a page of this site, and safe to be sent to; `//evil.example` and `https://...` are not."""
    return path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()


def client_of_request(request: Request) -> StoreClient | None:
    """The client of the caller; None on pages that everybody may see."""
    client: StoreClient | None = request.scope.get("state", {}).get("client")
    return client
