"""A model that says its answers piece by piece, each when the test lets it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from afl.models import Reply, Request, Text
from afl.models.messages import StopReason
from afl.models.model import OnText

SECONDS = 60.0


class SpeakingModel:
    """Each answer is a reply, or pieces of text: after each of these it waits for `go_on`."""

    def __init__(self, answers: Iterable[Reply | Sequence[str]], *, waits: bool = True) -> None:
        self.name = "speaking"
        self.requests: list[Request] = []
        self._answers = iter(answers)
        self._waits = waits
        self._allowed = threading.Semaphore(0)

    def resolve(self, name: str) -> str:
        return name or self.name

    def go_on(self) -> None:
        """Let it say the next piece, or end."""
        self._allowed.release()

    def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        self.requests.append(request)
        answer = next(self._answers)
        if isinstance(answer, Reply):
            return answer
        for piece in answer:
            if on_text is not None:
                on_text(piece)
            assert not self._waits or self._allowed.acquire(timeout=SECONDS)
        return Reply((Text("".join(answer)),), StopReason.END_TURN, model=self.name)
