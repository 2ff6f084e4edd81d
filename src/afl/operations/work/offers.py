"""What modules offer: handlers of facets, functions that answer messages, agents of turns; one module may have all."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from afl.bridges.marks import answering
from afl.kernel.errors import InputError
from afl.operations.program.agents import HOW, AgentError, load_agents, load_module
from afl.operations.program.library import list_workflows, load_workflow
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program.program import Program
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.task_handlers.signatures import mismatches, near_misses

if TYPE_CHECKING:
    from afl.operations.turn.turn_service import TurnModule

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Offer:
    """What a process can do by its modules."""

    handlers: Handlers = field(default_factory=Handlers)
    answering: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    agents: tuple[TurnModule, ...] = ()

    @property
    def names(self) -> list[str]:
        """All of it, for a greeting."""
        turns = [f"agent {each.agent_id}" for module in self.agents for each in module.agents]
        return [*self.handlers.names, *(f"messages to {agent}" for agent in self.answering), *turns]


def load_offer(modules: Iterable[str], store: PersistenceAPI | None = None) -> Offer:
    """All that the modules offer; AgentError if one cannot be used or offers nothing."""
    names = list(modules)
    sources = [load_module(name) for name in names]
    try:
        answers = answering(source for source in sources if _is_looked_at(source))
    except InputError as error:
        raise AgentError(str(error)) from error
    handlers = load_agents(names, store, otherwise=_offers_more)
    turns = [name for name, source in zip(names, sources, strict=True) if _declares_agents(source)]
    return Offer(handlers, answers, tuple(_turns("load_turn_module", name) for name in turns))


def offer_of(source: Any) -> Offer:
    """What an object of this process offers: a map of functions by facet name, a marked function, an object with marked
    methods, a module with all it has, or a list of such. InputError for an object that offers nothing.
    """
    if source is None:
        return Offer()
    if isinstance(source, Offer):
        return source
    if isinstance(source, list | tuple):
        return _combined([offer_of(each) for each in source])
    handlers = Handlers.of(source)
    if isinstance(source, ModuleType):
        turns = (_turns("turn_module_of", source, source.__name__),) if _declares_agents(source) else ()
        offer = Offer(handlers, answering([source]), turns)
    else:
        offer = Offer(handlers)
    if not offer.names and not isinstance(source, Handlers | Mapping):
        raise InputError(f"{_reason(source)}; {HOW}")
    return offer


def _reason(source: Any) -> str:
    if isinstance(source, str):
        return f"the text {source[:80]!r} is not looked up as a module; import it and give the module"
    if isinstance(source, FunctionType | MethodType):
        return f"the function {source.__qualname__} is not marked with @handler"
    if isinstance(source, ModuleType):
        return f"the module {source.__name__} has no handlers"
    return f"the object of the class {type(source).__qualname__} has no handlers"


class MismatchReports:
    """Reports how handlers do not fit the facets of programs, each mismatch once; other programs may be served."""

    def __init__(self, handlers: Handlers, report: Callable[[str], None]) -> None:
        self._handlers = handlers
        self._report = report
        self._reported: set[str] = set()

    def look_at_store(self, store: PersistenceAPI) -> None:
        """Compare with the workflows that the store knows."""
        for known in list_workflows(store):
            with suppress(InputError):  # one that does not compile any more, or is gone
                self.look_at(load_workflow(store, known))

    def look_at(self, program: Program) -> None:
        """Compare with one program. Whatever goes wrong here must not keep the program from being evaluated."""
        try:
            found = {*mismatches(self._handlers, program), *near_misses(self._handlers, program)}
        except Exception:
            _log.exception("handlers could not be compared with the program %s", program.hash[:12])
            return
        for text in sorted(found - self._reported):
            self._reported.add(text)
            self._report(text)


def _combined(offers: list[Offer]) -> Offer:
    handlers = Handlers(each for offer in offers for each in offer.handlers)
    answers: dict[str, Callable[..., Any]] = {}
    for offer in offers:
        if twice := sorted(answers.keys() & offer.answering.keys()):
            raise InputError(f"there are two functions that answer messages to {twice[0]}")
        answers |= offer.answering
    return Offer(handlers, answers, tuple(module for offer in offers for module in offer.agents))


def _offers_more(source: Any) -> bool:
    return (_is_looked_at(source) and bool(answering([source]))) or _declares_agents(source)


def _is_looked_at(source: Any) -> bool:
    return isinstance(source, ModuleType) or callable(source)


def _declares_agents(source: Any) -> bool:
    """Whether the module declares agents: only then the modules of turns are imported."""
    if "afl.turns.definition" not in sys.modules or not isinstance(source, ModuleType):
        return False
    kind = sys.modules["afl.turns.definition"].AgentDefinition
    values = vars(source).values()
    return any(isinstance(each, kind) for each in values) or any(
        isinstance(one, kind) for each in values if isinstance(each, (list, tuple)) for one in each
    )


def _turns(loader: str, *given: Any) -> TurnModule:
    """Imported when it is wanted: it takes as long as all the rest."""
    module: TurnModule = getattr(importlib.import_module("afl.operations.turn.turn_service"), loader)(*given)
    return module
