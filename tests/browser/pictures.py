"""The pictures of docs/dashboard.md, drawn by `make pictures`.

A store of a small shop is filled by real runs, and each page is drawn in light, dark and on a phone.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from playwright.sync_api import expect
from support.chromium import Chromium
from support.dashboards import served, settings_for

from afl.kernel.clock import wall_ms
from afl.models import ScriptedModel, Usage
from afl.models.scripted import calls
from afl.operations.program.sources import program_of
from afl.operations.run import runs
from afl.operations.run.rerun import rerun
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.usage import UsageRecord
from afl.runtime.store import open_store
from afl.runtime.stores.usage_store import usage_store
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.task_handlers.model_handler import model_handler
from browser.looks import LOOKS

SOURCE = """namespace shop {
    /** Charge the customer. */
    event facet Charge(order: String, amount: Double) => (receipt: String) with Retry(attempts = 3, backoff = 20)
    event facet Letter(order: String) => (text: String)
    /** Is the refund right? @return ok pay it back */
    event facet Release(order: String, customer: String, amount: Double) => (ok: Boolean)
        with Human("finance", title = "A refund to release") with Timeout(hours = 48)

    workflow Order(order: String, amount: Double) => (receipt: String, text: String) andThen {
        charged = Charge(order = $.order, amount = $.amount)
        letter = Letter(order = $.order) with After(charged)
        yield Order(receipt = charged.receipt, text = letter.text)
    }
    workflow Refund(order: String, customer: String, amount: Double) => (ok: Boolean) andThen {
        released = Release(order = $.order, customer = $.customer, amount = $.amount)
        yield Refund(ok = released.ok)
    }
}
"""
AGENTS = """
attempts = {}

def charge(order, amount, context):
    context.log(f"asking the bank for {amount:.2f}")
    attempts[order] = attempts.get(order, 0) + 1
    if amount > 500 or (order == "1000" and attempts[order] < 3):
        raise ConnectionError(f"the bank does not answer (order {order})")
    return {"receipt": f"receipt-{order}"}
"""
CUSTOMERS = ("Ada", "Grace", "Linus", "Guido")


def fill(store: PersistenceAPI) -> dict[str, str]:
    """Pages by their names."""
    reply = calls("Letter", {"text": "Thank you for your order."}, usage=Usage(900, 60))
    model = ScriptedModel(lambda request: reply)
    agents: dict[str, Any] = {}
    exec(
        compile(AGENTS, "/srv/shop/agents.py", "exec"), agents
    )  # so that no picture shows a path of this machine
    handlers = Handlers.of({"Charge": agents["charge"], "Letter": model_handler(model, store)})

    def started(workflow: str, **inputs: Any) -> str:
        program = program_of(SOURCE, workflow, name="shop.afl")
        tags = {"team": "web" if len(agents["attempts"]) % 2 else "data"}
        return runs.start(store, program, inputs, handlers=handlers, tags=tags).run

    orders = [started("shop.Order", order=str(1000 + n), amount=19.9 + 7 * n) for n in range(12)]
    failed = started("shop.Order", order="1013", amount=900.0)
    for number, customer in enumerate(CUSTOMERS):
        started("shop.Refund", order=str(1001 + number), customer=customer, amount=19.9 + number)
    again = rerun(store, failed, {"amount": 90.0}).run
    runs.resume(store, again, handlers=handlers)
    kept = usage_store(store)
    assert kept is not None
    for order in orders:
        kept.record_usage(
            UsageRecord(order, "step", "task", "claude-sonnet-4-6", 900, 60, 0, 0, 0.0036, wall_ms())
        )
    return {
        "runs": "/runs",
        "run": f"/runs/{orders[0]}?view=timeline",
        "step": f"/runs/{orders[0]}/steps/0/charged",
        "compare": f"/compare?first={again}",
        "overview": "/overview?period=1h",
        "inbox": "/approvals",
    }


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        url = f"sqlite:///{stack.enter_context(tempfile.TemporaryDirectory())}/shop.db"
        store = open_store(url)
        pages = fill(store)
        store.close()
        address = stack.enter_context(served(settings_for(url)))
        browser = stack.enter_context(Chromium())
        for look in LOOKS:
            with browser.context(base_url=address, **look.options) as context:
                for name, path in pages.items():
                    page = context.new_page()
                    page.goto(path)
                    expect(page.locator("[data-link-state='on']")).to_be_attached()
                    page.screenshot(path=folder / f"{name}-{look.name}.png")
                    page.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
