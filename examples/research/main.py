"""Research driven by a model. It needs no key: it speaks to a pretend Claude on this machine.

From the root of the repository:

    python examples/research/main.py [TOPIC]

It needs `pip install "agentflow-afl[anthropic]"`.

Look at: the model plans, uses the tool `search`, gives an answer that does not fit and is told so; a plain function
files the report. At the end stands what each step used of the run's budget. With ANTHROPIC_API_KEY set, `--claude`
speaks to the real one.
"""

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from afl.kernel.extras import require_extras

require_extras("anthropic")

import pretend
from library import search

from afl.devstack.messages_api import MessagesApi
from afl.language import compile_source
from afl.models.claude import ClaudeModel
from afl.runtime.agent import ClaudeAgentRunner, ToolRegistry
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence.usage import by_step
from afl.runtime.stores.usage_store import usage_store

PROGRAM = compile_source((Path(__file__).parent / "research.afl").read_text()).program
MODEL = "claude-sonnet-4-6"


def file_report(payload: dict[str, Any]) -> dict[str, Any]:
    return {"shelf": f"shelf {len(payload['report'])}"}


def main(topic: str, *, real: bool) -> int:
    store = MemoryStore()
    functions = ToolRegistry()
    functions.register("research.File", file_report)
    with ExitStack() as stack:
        if real:
            model = ClaudeModel(MODEL)
        else:
            api = stack.enter_context(MessagesApi(pretend.answer))
            model = ClaudeModel(MODEL, base_url=api.url, api_key="local")
        stack.callback(model.close)
        runner = ClaudeAgentRunner(
            Evaluator(store),
            store,
            model=model,
            tool_registry=functions,
            tools=[search],
            on_text=lambda text: print(text, end="", flush=True),
        )
        workflow = PROGRAM["namespaces"][0]["workflows"][0]
        result = runner.run(workflow, {"topic": topic}, PROGRAM, budget_usd=1.00)
    print()
    if result.status != "COMPLETED":
        print(f"{result.status}: {result.error}", file=sys.stderr)
        return 1
    print("\n".join(result.outputs["report"]))
    print(f"Filed on {result.outputs['shelf']}.\n")
    kept = usage_store(store)
    assert kept is not None
    for step, spent in by_step(kept.get_usage(result.workflow_id)).items():
        name = step.removeprefix(f"{result.workflow_id}/")
        print(f"{name:22} {spent.calls} calls {spent.usage.total_tokens:6} tokens {spent.cost_usd:.4f} USD")
    return 0


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--claude"]
    sys.exit(main(" ".join(words) or "whales", real="--claude" in sys.argv))
