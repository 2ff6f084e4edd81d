"""Schedules: workflows that run on a schedule, and a form that adds one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from afl.dashboard.pages.parts import Part, live_page, of_part, shown_texts, submitted, text_of
from afl.dashboard.rendering import ask, flash_redirect, fragment, page
from afl.kernel.error_text import error_text
from afl.kernel.errors import InputError
from afl.operations.people.forms import Form, FormError, parse
from afl.operations.program.library import list_workflows, workflow_form
from afl.operations.work import timetable
from afl.operations.work.timetable import CatchUp

SCHEDULES = Part(
    "schedules",
    "Schedules",
    "Workflows that run on a schedule. They are kept by stores on SQLite and PostgreSQL.",
    (("Use one of these stores", "afl dashboard --store sqlite:///.afl/afl.db"),),
)
PRESETS = (
    ("0 * * * *", "every hour"),
    ("0 6 * * *", "every day at 6"),
    ("0 6 * * 1-5", "weekdays at 6"),
    ("0 6 * * 1", "Mondays at 6"),
    ("*/15 * * * *", "every 15 minutes"),
)
CATCH_UPS = {
    CatchUp.LATEST: "start the latest of them once",
    CatchUp.NONE: "forget them",
    CatchUp.ALL: "start every one",
}


@dataclass(frozen=True)
class Wish:
    """What the form says about when and what; inputs apart."""

    workflow: str = ""
    cron: str = ""
    zone: str = "UTC"
    name: str = ""
    catch_up: str = CatchUp.LATEST
    task_list: str = "default"

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Wish:
        """From a form or the query of an address; what is missing or empty is as at first."""
        first = asdict(cls())
        return cls(**{name: text_of(given, name) or first[name] for name in first})


@dataclass(frozen=True)
class Preview:
    """When an expression would fire next, as a clock on a wall of its zone shows it; or what is wrong with it."""

    times: list[tuple[int, str]]
    problem: str = ""

    @classmethod
    def of(cls, cron: str, zone: str) -> Preview:
        if not cron:
            return cls([])
        try:
            times = timetable.preview(cron, zone)
        except InputError as error:
            return cls([], error_text(error))
        return cls([(moment, _wall(moment, zone)) for moment in times])


def _wall(moment: int, zone: str) -> str:
    return datetime.fromtimestamp(moment / 1000, ZoneInfo(zone)).strftime("%a %Y-%m-%d %H:%M:%S %Z")


async def _all(request: Request) -> dict[str, Any]:
    return {"schedules": await ask(request, timetable.schedules)}


async def preview(request: Request) -> Response:
    wish = Wish.of(request.query_params)
    return await fragment(request, "schedules_preview.html", preview=Preview.of(wish.cron, wish.zone))


@of_part(SCHEDULES)
async def new(request: Request) -> Response:
    wish = Wish.of(request.query_params)
    form = await _inputs(request, wish)
    return await _form(request, wish, form, shown_texts(form), {})


async def _inputs(request: Request, wish: Wish) -> Form:
    """The inputs of the chosen workflow; none before one is chosen."""
    return await ask(request, workflow_form, wish.workflow) if wish.workflow else Form("", "")


async def _form(
    request: Request, wish: Wish, form: Form, texts: dict[str, str], problems: dict[str, str]
) -> Response:
    return await page(
        request,
        "schedule_new.html",
        active="schedules",
        status=422 if problems else 200,
        wish=wish,
        form=form,
        texts=texts,
        problems=problems,
        preview=Preview.of(wish.cron, wish.zone),
        workflows=await ask(request, list_workflows),
        presets=PRESETS,
        catch_ups=CATCH_UPS,
        zones=sorted(available_timezones()),
    )


@of_part(SCHEDULES)
async def add(request: Request) -> Response:
    """Add one from the form; what does not fit is said, and nothing is stored. `look` only shows when it would fire."""
    data: FormData = await request.form()
    wish = Wish.of(data)
    form = await _inputs(request, wish)
    texts = submitted(form, data)
    if "look" in data:
        return await _form(request, wish, form, texts, {})
    try:
        made = await ask(
            request,
            timetable.schedule_workflow,
            wish.workflow,
            parse(form, texts),
            cron=wish.cron,
            name=wish.name,
            zone=wish.zone,
            catch_up=_catch_up(wish.catch_up),
            task_list=wish.task_list,
        )
    except FormError as error:
        return await _form(request, wish, form, texts, error.problems)
    except InputError as error:
        return await _form(request, wish, form, texts, {"": error_text(error)})
    return flash_redirect(request, "/schedules", f"Schedule {made.name} was added.")


def _catch_up(text: str) -> CatchUp:
    return next((each for each in CatchUp if each == text), CatchUp.LATEST)


@of_part(SCHEDULES)
async def change(request: Request) -> Response:
    """Pause, unpause or remove the schedule that the form names."""
    name = text_of(await request.form(), "name")
    action = request.scope["path"].rpartition("/")[2]
    try:
        if action == "remove":
            await ask(request, timetable.remove, name)
        else:
            await ask(request, timetable.pause, name, paused=action == "pause")
    except InputError as error:
        return flash_redirect(request, "/schedules", str(error), "bad")
    done = {"pause": "is paused", "unpause": "starts runs again", "remove": "was removed; its runs stay"}
    return flash_redirect(request, "/schedules", f"Schedule {name} {done[action]}.")


routes = [
    *live_page("/schedules", "schedules", "list", _all, part=SCHEDULES),
    Route("/schedules", add, methods=["POST"]),
    Route("/schedules/new", new),
    Route("/schedules/fragment/preview", preview),
    Route("/schedules/pause", change, methods=["POST"]),
    Route("/schedules/unpause", change, methods=["POST"]),
    Route("/schedules/remove", change, methods=["POST"]),
]
