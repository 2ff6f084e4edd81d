"""The pages of the dashboard: every module has `routes`, and here is all of them."""

from __future__ import annotations

from starlette.routing import BaseRoute

from afl.dashboard.pages import (
    again,
    approvals,
    audit,
    bulk,
    compare,
    overview,
    parts,
    run,
    runs,
    schedules,
    search,
    signals,
    start,
    tasks,
    turn_files,
    turn_sessions,
    turns,
)
from afl.dashboard.pages.parts import FLEET, MESSAGES, optional_routes

ROUTES: list[BaseRoute] = [
    *parts.routes,
    *runs.routes,
    *bulk.routes,
    *run.routes,
    *compare.routes,
    *overview.routes,
    *again.routes,
    *start.routes,
    *signals.routes,
    *approvals.routes,
    *schedules.routes,
    *tasks.routes,
    *turn_files.routes,
    *turns.routes,
    *turn_sessions.routes,
    *optional_routes("afl.dashboard.pages.fleet", FLEET, ["/fleet", "/fleet/{rest:path}"]),
    *optional_routes("afl.dashboard.pages.messages", MESSAGES, ["/messages", "/messages/{rest:path}"]),
    *audit.routes,
    *search.routes,
]
