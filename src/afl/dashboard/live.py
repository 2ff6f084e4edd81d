"""The live view: who watches is told what changed. Slow parts are polled by threads of their own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from afl.dashboard.streams import EventStream, StreamLimit, user_of
from afl.kernel.errors import AgentFlowError
from afl.kernel.joinable_thread import JoinableThread
from afl.kernel.settings import Settings
from afl.operations.run.pulse import notifier_topics, pulse
from afl.runtime.persistence import PersistenceAPI

_log = logging.getLogger(__name__)

LOOK_SECONDS = 0.25
_SHORTEST_PAUSE = 0.05  # between two looks, however often it notifies
_SHARE = 4  # looking takes at most one part in five of the time
_COMMENT_SECONDS = 15.0  # so that proxies and dead peers are noticed
_MOST_TOPICS = 200  # of all pages of a browser
_LONGEST_TOPIC = 400
_MOST_WATCHED = 2_000  # topics in all: each is looked at several times a second
_MOST_WATCHED_EACH = 500


@dataclass(frozen=True, eq=False)
class Sources:
    """What a watcher may look at; each is its own, as settings may hold maps, which have no hash."""

    store: PersistenceAPI
    settings: Settings


@dataclass(frozen=True)
class Watcher:
    """How to see that a topic changed: any value that differs when it did. Looked at in the hub's thread."""

    look: Callable[[Sources, str], object]
    every_ms: int = 250


WATCHERS: dict[str, Watcher] = {}
"""Topics that are not the store's own, by what stands before the colon; page modules add theirs."""


@dataclass(eq=False)
class Subscription:
    """One browser: the topics it watches, and those that changed since it was last told."""

    topics: frozenset[str]
    user: str
    loop: asyncio.AbstractEventLoop
    changed: set[str] = field(default_factory=set)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    begun: asyncio.Event = field(
        default_factory=asyncio.Event
    )  # its topics were looked at: every change is told
    over: bool = False

    def begin(self) -> None:
        """From any thread: from now on."""
        if not self.begun.is_set():
            with contextlib.suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self.begun.set)

    def tell(self, topics: Iterable[str]) -> None:
        """From any thread: these changed."""
        with contextlib.suppress(RuntimeError):  # its loop is closed, and the browser gone
            self.loop.call_soon_threadsafe(self._note, list(topics))

    def _note(self, topics: list[str]) -> None:
        self.changed.update(topics)
        self.news.set()

    def end(self) -> None:
        """From any thread: there will be no more."""
        self.over = True
        self.begin()
        self.tell(())


@dataclass
class _Sight:
    """The last look at a topic."""

    value: object = None
    looked: float = 0.0


class Hub:
    """Looks at what is watched, and tells those who watch it."""

    def __init__(self, store: PersistenceAPI, settings: Settings) -> None:
        self._sources = Sources(store, settings)
        self._lock = threading.Lock()
        self._subscriptions: set[Subscription] = set()
        self._sights: dict[str, _Sight] = {}
        self._thread: JoinableThread | None = None
        self._moved = threading.Event()  # the set of topics changed, or the hub is closed
        self._wake: Callable[[], None] = self._moved.set  # ends the wait for a notification, too
        self._closed = False

    @contextmanager
    def watch(self, topics: Iterable[str], user: str = "") -> Iterator[Subscription]:
        """Hear of these topics from now on."""
        subscription = Subscription(frozenset(topics), user, asyncio.get_running_loop())
        with self._lock:
            subscription.over = self._closed
            self._subscriptions.add(subscription)
            if self._thread is None and not self._closed:
                self._thread = JoinableThread(self._run, "afl-live")
                self._thread.start()
        self._move()
        try:
            yield subscription
        finally:
            with self._lock:
                self._subscriptions.discard(subscription)
            self._move()

    def count_with(self, topics: Iterable[str], user: str | None = None) -> int:
        """How many topics would be watched with these: by a user, or by all."""
        with self._lock:
            others = [each for each in self._subscriptions if user in (None, each.user)]
            return len(frozenset(topics).union(*(each.topics for each in others)))

    def close(self) -> None:
        """Tell everybody that it is over, and end the thread."""
        with self._lock:
            self._closed = True
            thread = self._thread
            for subscription in self._subscriptions:
                subscription.end()
        self._move()
        if thread is not None:
            thread.join(timeout=5)

    def _move(self) -> None:
        self._moved.set()
        self._wake()

    def _watched(self) -> frozenset[str]:
        """The topics; when there are none, the thread ends and the next subscription starts another."""
        self._moved.clear()  # first: who comes from here on is seen, or ends the next wait
        with self._lock:
            topics = frozenset().union(*(each.topics for each in self._subscriptions))
            if self._closed or not topics:
                self._thread = None
                self._sights.clear()
                return frozenset()
            self._sights = {topic: self._sights.get(topic) or _Sight() for topic in topics}
            return topics

    def _run(self) -> None:
        while topics := self._watched():
            try:
                with self._sources.store.subscribe(notifier_topics(topics)) as notified:
                    self._wake = notified.wake
                    while not self._moved.is_set():
                        took = self._look(topics)
                        self._moved.wait(max(_SHORTEST_PAUSE, took * _SHARE))
                        if not self._moved.is_set():
                            notified.wait(LOOK_SECONDS)
            except AgentFlowError as error:
                _log.warning("the live view cannot listen to the store: %s", error)
                self._moved.wait(1.0)

    def _look(self, topics: frozenset[str]) -> float:
        """Look once at all that is due, tell who watches what changed; the seconds it took.

        At new topics first: a page is live once all of its own were looked at.
        """
        began = time.monotonic()
        new = {topic for topic in topics if not self._sights[topic].looked}
        for topic in new:
            self._has_changed(topic, began)
        for subscription in self._current():
            if subscription.topics <= topics:
                subscription.begin()
        changed = {topic for topic in topics - new if self._has_changed(topic, began)}
        for subscription in self._current() if changed else ():
            if news := changed & subscription.topics:
                subscription.tell(news)
        return time.monotonic() - began

    def _current(self) -> list[Subscription]:
        with self._lock:
            return list(self._subscriptions)

    def _has_changed(self, topic: str, now: float) -> bool:
        sight = self._sights[topic]
        kind, _, subject = topic.partition(":")
        watcher = WATCHERS.get(kind)
        every = LOOK_SECONDS if watcher is None else watcher.every_ms / 1000
        if sight.looked and now - sight.looked < every - _SHORTEST_PAUSE and watcher is not None:
            return False
        try:
            value = (
                pulse(self._sources.store, topic) if watcher is None else watcher.look(self._sources, subject)
            )
        except AgentFlowError as error:
            value = f"{type(error).__name__}: {error}"
        except Exception as error:  # of one topic; the others stay live
            value = f"{type(error).__name__}: {error}"
            if value != sight.value:
                _log.exception("the live view cannot look at %s", topic)
        first = not sight.looked
        changed = not first and value != sight.value
        sight.value, sight.looked = value, now
        return changed


async def events(request: Request) -> Response:
    """`GET /events?topic=...`: one event per topic that changed."""
    topics = [each for each in request.query_params.getlist("topic") if 0 < len(each) <= _LONGEST_TOPIC]
    topics = topics[:_MOST_TOPICS]
    hub, user = request.app.state.hub, user_of(request)
    limit: StreamLimit = request.app.state.live_page_limit
    limit.check(user)
    if hub.count_with(topics, user) > _MOST_WATCHED_EACH:
        raise HTTPException(
            429, f"{user} watches {_MOST_WATCHED_EACH} things already, the most that one user may"
        )
    if hub.count_with(topics) > _MOST_WATCHED:
        raise HTTPException(503, "too many pages are open at once; this one does not refresh itself")
    return EventStream(request, _stream(hub, topics, user), limit)


async def _stream(hub: Hub, topics: list[str], user: str = "") -> AsyncGenerator[str, None]:
    with hub.watch(topics, user) as subscription:
        yield "retry: 1000\n\n"
        await subscription.begun.wait()
        yield "event: ready\ndata: {}\n\n"
        while not subscription.over:
            try:
                await asyncio.wait_for(subscription.news.wait(), _COMMENT_SECONDS)
            except TimeoutError:
                yield ": still here\n\n"
                continue
            subscription.news.clear()
            changed, subscription.changed = sorted(subscription.changed), set()
            for topic in changed:
                yield f"event: change\ndata: {json.dumps({'topic': topic})}\n\n"


MOST_THREADS = 32
_BLIND_SECONDS = 2
_UNWATCHED_SECONDS = 3.0
_REST_SECONDS = 1.0  # after it could not be reached

Look = Callable[[str], object]


@dataclass
class _Watch:
    """One subject: what was seen last, and when somebody last wanted to know."""

    asked: float
    seen: object = None


@dataclass
class BackgroundPoll:
    """Looks at subjects again and again, each in a thread that ends when nobody asks any more.

    `opened` gives what to look with, for as long as the thread lives. Each has a connection of its own, so there are
    only so many: what else is watched counts as changed every now and then.
    """

    opened: Callable[[Sources], AbstractContextManager[Look]]
    every_seconds: float
    _watches: dict[tuple[Sources, str], _Watch] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def see(self, sources: Sources, subject: str) -> object:
        """What was seen last; None before the first look is over."""
        key = (sources, subject)
        with self._lock:
            watch = self._watches.get(key)
            if watch is not None:
                watch.asked = time.monotonic()
                return watch.seen
            if len(self._watches) >= MOST_THREADS:
                return time.monotonic() // _BLIND_SECONDS
            watch = self._watches[key] = _Watch(time.monotonic())
        threading.Thread(target=self._run, args=(key, watch), name="afl-background-poll", daemon=True).start()
        return None

    def _run(self, key: tuple[Sources, str], watch: _Watch) -> None:
        sources, subject = key
        while self._wanted(key, watch):
            try:
                with self.opened(sources) as look:
                    while self._wanted(key, watch):
                        watch.seen = look(subject)
                        time.sleep(self.every_seconds)
            except AgentFlowError as error:  # that it is away is worth knowing too
                watch.seen = f"{type(error).__name__}: {error}"
                time.sleep(_REST_SECONDS)

    def _wanted(self, key: tuple[Sources, str], watch: _Watch) -> bool:
        with self._lock:
            if time.monotonic() - watch.asked <= _UNWATCHED_SECONDS:
                return True
            if self._watches.get(key) is watch:
                del self._watches[key]
            return False
