"""What no page may do while a test looks at it: report an error, lose a request, or speak to another host."""

from __future__ import annotations

from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Request, Response, WebError

_GIVEN_UP = "net::ERR_ABORTED"  # the page was left while it was still asking; live events always are
_OWN_SCHEMES = ("data", "blob", "about")


class PageWatch:
    """Listens to every page of a context. A refusal that a test provokes is announced with `expect_status`."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self._hosts = {urlsplit(url).netloc}
        self._expected: set[int] = set()
        self.problems: list[str] = []
        context.on("console", self._console)
        context.on("weberror", self._error)
        context.on("request", self._request)
        context.on("requestfailed", self._failed)
        context.on("response", self._response)

    def allow_host(self, *urls: str) -> None:
        """Another dashboard of the same system, or a site that a test pretends to be."""
        self._hosts.update(urlsplit(url).netloc for url in urls)

    def expect_status(self, *codes: int) -> None:
        """From now on answers with these codes are what the test wants."""
        self._expected.update(codes)

    def check(self) -> None:
        assert not self.problems, "\n".join(["the page misbehaved:", *self.problems])

    def _console(self, message: ConsoleMessage) -> None:
        expected = any(f"status of {code}" in message.text for code in self._expected)
        if message.type in ("error", "warning") and not expected:
            self.problems.append(f"console {message.type}: {message.text} ({message.location.get('url')})")

    def _error(self, error: WebError) -> None:
        self.problems.append(f"uncaught: {error.error}")

    def _request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in _OWN_SCHEMES and parts.netloc not in self._hosts:
            self.problems.append(f"a request to another host: {request.url}")

    def _failed(self, request: Request) -> None:
        if request.failure != _GIVEN_UP:
            self.problems.append(f"a request failed: {request.url} {request.failure}")

    def _response(self, response: Response) -> None:
        if response.status >= 400 and response.status not in self._expected:
            self.problems.append(f"{response.status} from {response.request.method} {response.url}")
