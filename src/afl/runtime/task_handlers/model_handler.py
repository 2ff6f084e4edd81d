"""A model as a handler: it does the work of event facets beside, or instead of, plain functions.

    translate = model_handler(ClaudeModel(), store, tools=[dictionary])
    Handlers.of({"news.Translate": translate, "news.Print": print_page})

What a facet asks for is read from the program of the run that the work belongs to, so one handler serves every facet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from afl.kernel.errors import InputError, PayloadError
from afl.kernel.settings import load_settings
from afl.models.conversation import CORRECTIONS, ROUNDS, Question, ask
from afl.models.messages import MAX_TOKENS
from afl.models.model import Model, OnText
from afl.models.schema import PythonTool, tool_from
from afl.models.usage import PRICES, Prices
from afl.runtime.errors import ResultError
from afl.runtime.evaluation.outcome import fit_result
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program.cache import ProgramCache
from afl.runtime.program.declaration import Declaration
from afl.runtime.stores.usage_store import usage_store
from afl.runtime.task_handlers.facet_prompt import facet_prompt
from afl.runtime.task_handlers.handler import HandlerContext
from afl.runtime.task_handlers.metered_model import MeteredModel, Place
from afl.runtime.task_handlers.tool_definition import ToolDefinition
from afl.runtime.types import WorkflowId


class ModelHandler:
    """Asks a model for the results of facets. Its use is recorded in the store, within the budget of the run.

    `keep_exchanges` says whether prompts and replies are stored as well; None: as AFL_MODEL_CALLS_DAYS says.
    """

    def __init__(
        self,
        model: Model,
        store: PersistenceAPI,
        *,
        tools: Sequence[Callable[..., Any] | PythonTool] = (),
        system: str = "",
        max_tokens: int = MAX_TOKENS,
        corrections: int = CORRECTIONS,
        rounds: int = ROUNDS,
        prices: Prices = PRICES,
        on_text: OnText | None = None,
        keep_exchanges: bool | None = None,
    ) -> None:
        self.model = model
        self._keep_exchanges = (
            load_settings().model_calls_days > 0 if keep_exchanges is None else keep_exchanges
        )
        self._programs = ProgramCache(store)
        self._kept = usage_store(store)
        self._tools = [tool_from(tool) for tool in tools]
        self._system = system
        self._limits = {"max_tokens": max_tokens, "corrections": corrections, "rounds": rounds}
        self._prices = prices
        self._on_text = on_text

    def __call__(self, context: HandlerContext, **payload: Any) -> dict[str, Any]:
        """As a function that `Handlers` calls: the facet's parameters by name."""
        return self.handle(payload, context)

    def handle(
        self, payload: Mapping[str, Any], context: HandlerContext, *, task: str = ""
    ) -> dict[str, Any]:
        """The result of a facet; `task` is what all of the run is for.

        AnswerError, ModelError or BudgetExceeded if there is none.
        """
        facet, place = (
            self._declaration(context),
            Place(context.workflow_id, context.step_id, context.task_id),
        )
        prompt = facet_prompt(facet, payload, system=self._system, task=task)
        question = Question(
            prompt=prompt.text,
            system=prompt.system,
            model=prompt.model,
            answer=ToolDefinition.of(facet).tool,
            tools=self._tools,
            check=lambda answer: misfit_of(facet, answer),
            optional=not facet.returns,
            **self._limits,
        )
        return ask(self._metered(place), question, on_text=self._on_text).value

    def _metered(self, place: Place) -> Model:
        if self._kept is None:
            return self.model
        return MeteredModel(self.model, self._kept, place, self._prices, keep_exchanges=self._keep_exchanges)

    def _declaration(self, context: HandlerContext) -> Declaration:
        found = self._programs.of_run(WorkflowId(context.workflow_id)).declaration(context.facet)
        if found is None:
            raise InputError(f"the program of run {context.workflow_id} has no facet {context.facet}")
        return found


def model_handler(model: Model, store: PersistenceAPI, **options: Any) -> ModelHandler:
    """A handler by which a model does the work of facets; the options are those of ModelHandler."""
    return ModelHandler(model, store, **options)


def misfit_of(facet: Declaration, answer: dict[str, Any]) -> str | None:
    """What is wrong with a result, as the store would say it; None if nothing is."""
    try:
        fit_result(facet.program, facet.name, answer)
    except (ResultError, PayloadError) as error:
        return str(error)
    return None
