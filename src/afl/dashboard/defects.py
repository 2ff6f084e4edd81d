"""What nobody foresaw: its trace goes to the log, and nothing of it to the caller."""

from __future__ import annotations

import logging

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from afl.dashboard.headers import TooLarge
from afl.dashboard.outside import answer, refuse
from afl.kernel.errors import AgentFlowError
from afl.operations.problems import Problem

_log = logging.getLogger(__name__)
_LONGEST_PLACE = 200
_DEFECT = Problem("defect", "the server failed; its log says where")


class Defects:
    """Answers what fails behind it, as long as nothing has been answered yet.

    Starlette has a place for that outside of all middleware, where an answer gets no headers and a body that was not
    read breaks the connection.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        request = Request(scope)
        place = (request.method, scope["path"][:_LONGEST_PLACE])
        try:
            await self._app(scope, receive, noted)
        except TooLarge:
            raise
        except ClientDisconnect:
            _log.info("%s %s: the client left, or was too slow, in the middle of its request", *place)
        except AgentFlowError as error:
            if begun:
                raise
            await refuse(request, error)(scope, receive, send)
        except Exception as error:
            if begun:
                raise
            _log.error("%s %s failed", *place, exc_info=error)
            await answer(request, _DEFECT, 500)(scope, receive, send)
