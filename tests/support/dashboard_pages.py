"""Pages of the dashboard as a person without scripts uses them: open one, fill in a form, read what it says then."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from html import unescape
from typing import Any

from httpx2 import Response
from starlette.testclient import TestClient

from afl.kernel.settings import Settings
from afl.language import compile_source
from afl.operations.program.sources import choose_workflow
from afl.operations.roles import Role
from afl.operations.run import runs
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program.program import Program
from afl.runtime.store import open_store
from afl.runtime.task_handlers.handler import Handlers
from support.dashboards import TOKENS, client_of, with_users
from support.parallel import PROCESS

MARKUP = "<script>alert('x')</script>"
_TAG = re.compile(r"<[^>]*>")
_FLASH = re.compile(r'<div class="flash (\w+)"[^>]*>.*?<p>(.*?)</p>', re.DOTALL)


@dataclass(frozen=True)
class Told:
    """Where an action led to, and what the page said there: kind and text."""

    url: str
    kind: str
    text: str


class Visitor:
    """Somebody with a role, in front of a browser."""

    def __init__(self, client: TestClient) -> None:
        self.client = client
        client.headers["Accept"] = "text/html,*/*;q=0.8"

    def open(self, path: str, status: int = 200) -> str:
        """The HTML of a page. Markup that came from data must not be in it as markup."""
        answer = self.client.get(path)
        assert answer.status_code == status, (path, answer.status_code, shown(answer.text))
        assert MARKUP not in answer.text
        return answer.text

    def read(self, path: str, status: int = 200) -> str:
        """What a person reads on it."""
        return shown(self.open(path, status))

    def send(self, path: str, **fields: str) -> Response:
        """Send a form, as a browser of the same site does."""
        return self.client.post(path, data=fields, headers={"Sec-Fetch-Site": "same-origin"})

    def act(self, path: str, **fields: str) -> Told:
        """Send a form and follow where it leads."""
        answer = self.send(path, **fields)
        assert answer.status_code == 303, (path, answer.status_code, shown(answer.text))
        url = answer.headers["location"]
        page = self.client.get(url.partition("#")[0])
        found = _FLASH.search(page.text)
        assert found is not None, f"{url} says nothing of it: {shown(page.text)}"
        return Told(url, found[1], unescape(found[2]))


@dataclass(frozen=True)
class Visitors:
    """One of each role, and the store behind the pages."""

    store: PersistenceAPI
    settings: Settings
    viewer: Visitor
    operator: Visitor
    admin: Visitor

    def run(
        self, source: str, inputs: dict[str, Any] | None = None, workflow: str | None = None, **functions: Any
    ) -> str:
        """A run of a workflow (the only one) of a source, as far as these handlers (of namespace t) bring it."""
        handlers = Handlers.of({f"t.{name}": function for name, function in functions.items()})
        return runs.start(self.store, program_of(source, workflow), inputs or {}, handlers=handlers).run


@contextmanager
def visitors(store_url: str, **values: Any) -> Iterator[Visitors]:
    """A dashboard with users, on a store of its own."""
    settings = with_users(store_url, **values)
    with ExitStack() as stack:
        store = open_store(store_url)
        stack.callback(store.close)
        client = stack.enter_context(client_of(settings))
        made = {role: Visitor(_of_role(client, role)) for role in Role}
        yield Visitors(store, settings, made[Role.VIEWER], made[Role.OPERATOR], made[Role.ADMIN])


def _of_role(client: TestClient, role: Role) -> TestClient:
    """A client of the same application with the token of a role; it has cookies of its own."""
    headers = {"Authorization": f"Bearer {TOKENS[role]}"}
    return TestClient(client.app, str(client.base_url), headers=headers, follow_redirects=False)


def own_redis(url: str) -> str:
    """A database of the Redis server that only this worker uses: the desk's key prefix is always the same."""
    worker = os.environ.get(PROCESS, "0")
    return f"{url.rpartition('/')[0]}/{8 + int(worker) % 8}"


def program_of(source: str, workflow: str | None = None) -> Program:
    return choose_workflow(compile_source(source, name="test.afl"), workflow)


def shown(html: str) -> str:
    """The text of a page, in one line."""
    body = html.partition("<main")[2] or html
    return " ".join(unescape(_TAG.sub(" ", body)).split())
