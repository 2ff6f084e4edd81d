"""The audit log: who did what, from where, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from afl.dashboard.pages.parts import live_page, number_of
from afl.dashboard.rendering import QueryFilter, ask
from afl.operations.audit import DONE, FAILED, REFUSED, AuditEntry, read_audit

_PAGE = 50
_BATCH = 500
_MOST_READ = 5_000  # entries that are looked through for one page of those that fit


@dataclass(frozen=True)
class AuditFilter(QueryFilter):
    """What the form above the log asks for; empty: whatever it be."""

    who: str = ""
    operation: str = ""
    subject: str = ""
    outcome: str = ""

    def fits(self, entry: AuditEntry) -> bool:
        return (
            self.who in ("", entry.who)
            and self.outcome in ("", entry.outcome)
            and self.operation.lower().replace(" ", "_") in entry.operation.lower()
            and self.subject.lower() in entry.subject.lower()
        )


async def _found(request: Request) -> dict[str, Any]:
    wanted = AuditFilter.of(request)
    before = number_of(request.query_params.get("before", ""))
    entries, behind = await _read(request, wanted, before)
    return {
        "entries": entries,
        "wanted": wanted,
        "outcomes": (DONE, REFUSED, FAILED),
        "before": before,
        "later": f"/audit?{wanted.query(before=behind)}" if behind else "",
        "source": f"/audit/fragment/list?{wanted.query(before=before)}",
    }


async def _read(request: Request, wanted: AuditFilter, before: int) -> tuple[list[AuditEntry], int]:
    """Entries that fit, and where the next page begins (0: there is none)."""
    if not wanted.is_set:
        found = await ask(request, read_audit, before=before, limit=_PAGE)
        return found.entries, found.next
    fitting: list[AuditEntry] = []
    for _ in range(_MOST_READ // _BATCH):
        found = await ask(request, read_audit, before=before, limit=_BATCH)
        fitting += filter(wanted.fits, found.entries)
        before = found.next
        if not before or len(fitting) >= _PAGE:
            break
    return fitting, before


routes = live_page("/audit", "audit", "list", _found, active="audit")
