"""Signals on every store: each is received once, in order, by a step that waits for it, whenever it comes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from store_records import OpenStore, a_waiting_step, an_outcome, eventually, of_stores, stored_task

from afl.kernel.clock import wall_ms
from afl.kernel.errors import InputError, PayloadError
from afl.language import compile_source
from afl.operations.program.sources import choose_workflow
from afl.operations.program.submission import submit
from afl.operations.run import control, runs, signaling
from afl.operations.run.run_store import UnknownRun
from afl.operations.run.runs import RunReport
from afl.operations.run.signaling import list_signals, send_signal
from afl.runtime.entities import RunnerState, SignalDefinition, TaskState
from afl.runtime.evaluation.signals import receive_signals
from afl.runtime.evaluator import Evaluator, ExecutionStatus
from afl.runtime.persistence import PersistenceAPI, TaskFilter
from afl.runtime.persistence.signals import MOST_UNRECEIVED, SignalStored
from afl.runtime.recovery import sweep
from afl.runtime.signals import RunOver, SignalQueueFull, SignalRefused, UnknownSignal
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.types import WorkflowId

SOURCE = """namespace shop {
    event facet Paid(order: String) => (amount: Double) with Signal("paid")
    event facet Told(order: String) => (text: String) with Signal("paid")
    event facet Note(n: Long) => (text: String, copies: Long = 1) with Signal("note")
    event facet Ping() with Signal("ping")
    event facet Work(n: Long) => (n: Long)

    workflow One(order: String) => (amount: Double) andThen {
        p = Paid(order = $.order)
        yield One(amount = p.amount)
    }
    workflow Named(order: String) => (amount: Double) andThen {
        p = Paid(order = $.order) with Signal("paid-" ++ $.order)
        yield Named(amount = p.amount)
    }
    workflow Three() => (texts: String) andThen {
        a = Note(n = 1)
        b = Note(n = a.copies)
        c = Note(n = b.copies)
        yield Three(texts = a.text ++ b.text ++ c.text)
    } catch {
        p = Ping()
    }
    workflow Pair() => (first: Double, second: Double) andThen {
        a = Paid(order = "a")
        b = Paid(order = "b")
        yield Pair(first = a.amount, second = b.amount)
    } catch {
        n = Note(n = 1)
    }
    workflow Mixed() => (amount: Double, text: String) andThen {
        p = Paid(order = "a")
        t = Told(order = "b")
        yield Mixed(amount = p.amount, text = t.text)
    }
    workflow Later(order: String) => (amount: Double) andThen {
        w = Work(n = 1)
        p = Paid(order = $.order ++ w.n)
        yield Later(amount = p.amount)
    }
    workflow Hasty() => (why: String, kind: String) andThen {
        p = Paid(order = "a") with Timeout(ms = 1) catch { yield Hasty(why = p.error, kind = p.error_type) }
    }
    workflow Again() => (amount: Double) andThen {
        p = Paid(order = "a") with Timeout(ms = 1) with Retry(2, backoff = 0)
        yield Again(amount = p.amount)
    }
    workflow Pinged() => (done: Boolean) andThen {
        p = Ping()
        yield Pinged(done = true)
    }
    workflow Bad(name: String) => (why: String, kind: String) andThen {
        p = Paid(order = "a") with Signal($.name) catch { yield Bad(why = p.error, kind = p.error_type) }
    }
    workflow Crowd(ns: [Long]) andThen {
        e = Each(ns = $.ns)
        t = Told(order = "last")
    }
    facet Each(ns: [Long]) andThen foreach n in $.ns { p = Paid(order = "a") }
    workflow Many(ns: [Long]) andThen foreach n in $.ns { t = Note(n = n) }
}
"""


def submitted(store: PersistenceAPI, workflow: str, **inputs: Any) -> str:
    program = choose_workflow(compile_source(SOURCE, name="shop.afl"), f"shop.{workflow}")
    return submit(store, program, inputs).run


def begun(store: PersistenceAPI, workflow: str, **inputs: Any) -> str:
    """A run that waits for a signal."""
    run = submitted(store, workflow, **inputs)
    go_on(store, run)
    return run


def go_on(store: PersistenceAPI, run: str, **handlers: Callable[..., Any]) -> RunReport:
    served = {f"shop.{name}": each for name, each in handlers.items()}
    return runs.resume(store, run, handlers=Handlers.of(served))


def kept(store: PersistenceAPI, run: str) -> list[tuple[str, dict[str, Any]]]:
    return [(each.name, each.value) for each in list_signals(store, run).kept]


def awaited(store: PersistenceAPI, run: str) -> list[tuple[str, str]]:
    return [(each.name, each.step) for each in list_signals(store, run).awaited]


# An evaluator that called itself for each step would reach Python's limit; it is the same on every store, and a step
# of a chain takes a server ten times as long as a file.
CHAINS = {"sqlite": 350, "postgres": 12, "mongo": 12}
QUEUES = {"sqlite": MOST_UNRECEIVED, "postgres": 20, "mongo": 20}


# -- delivery -------------------------------------------------------------------------------------------------


def test_a_step_that_waits_goes_on_with_the_value(store: PersistenceAPI) -> None:
    run = begun(store, "One", order="7")
    assert awaited(store, run) == [("paid", "p")]
    (task,) = store.get_tasks_by_workflow(WorkflowId(run))
    assert (task.state, task.hold, task.via) == (TaskState.PENDING, "elsewhere", "signal:paid")
    done = send_signal(store, run, "paid", {"amount": 2.5}, id="x")
    assert (done.run, done.name, done.id, done.delivered, done.step) == (run, "paid", "x", True, "p")
    assert (kept(store, run), awaited(store, run)) == ([], [])
    ended = stored_task(store, task.uuid)
    assert (ended.state, ended.hold, ended.result) == (TaskState.COMPLETED, "", {"amount": 2.5})
    assert go_on(store, run).outputs == {"amount": 2.5}


def test_an_early_signal_is_kept(store: PersistenceAPI) -> None:
    run = submitted(store, "One", order="7")
    done = send_signal(store, run, "paid", {"amount": 2.5})
    assert (done.delivered, done.step, bool(done.id)) == (True, "", True)
    assert kept(store, run) == [("paid", {"amount": 2.5})]
    assert go_on(store, run).outputs == {"amount": 2.5}
    assert kept(store, run) == []


def test_a_signal_that_comes_while_another_step_works_is_kept(store: PersistenceAPI) -> None:
    run = submitted(store, "Later", order="7")

    def work(n: int) -> dict[str, Any]:
        send_signal(store, run, "paid", {"amount": n})
        return {"n": n}

    assert go_on(store, run, Work=work).outputs == {"amount": 1}


def test_an_evaluator_without_a_worker_receives_too(store: PersistenceAPI) -> None:
    run = WorkflowId(submitted(store, "Three"))
    evaluator = Evaluator(store)
    for text in "abc":
        send_signal(store, run, "note", {"text": text})
    assert evaluator.resume(run).outputs == {"texts": "abc"}


def test_several_are_received_in_the_order_of_delivery(store: PersistenceAPI) -> None:
    run = begun(store, "Three")
    for number, text in enumerate("abc"):
        send_signal(store, run, "note", {"text": text, "copies": number})
    assert go_on(store, run).outputs == {"texts": "abc"}


@pytest.mark.parametrize(("open_store", "length"), CHAINS.items(), indirect=["open_store"])
def test_a_long_chain_of_steps_receives_what_waits_for_it(store: PersistenceAPI, length: int) -> None:
    steps = [f"s{n} = Note(n = {f's{n - 1}.copies' if n else 1})" for n in range(length)]
    source = f"""event facet Note(n: Long) => (copies: Long) with Signal("note")
    workflow Chain() => (copies: Long) andThen {{ {" ".join(steps)} yield Chain(copies = s{length - 1}.copies) }}"""
    run = submit(store, choose_workflow(compile_source(source, name="chain.afl")), {}).run
    for number in range(length):
        store.add_signal(SignalDefinition(run, str(number), "note", {"copies": number}, wall_ms()))
    assert go_on(store, run).outputs == {"copies": length - 1}


def test_of_two_waiting_steps_the_older_is_first(store: PersistenceAPI) -> None:
    run = begun(store, "Pair")
    first = send_signal(store, run, "paid", {"amount": 1})
    second = send_signal(store, run, "paid", {"amount": 2})
    assert (first.step, second.step) == ("a", "b")
    assert go_on(store, run).outputs == {"first": 1, "second": 2}


def test_a_value_goes_to_the_step_that_it_fits(store: PersistenceAPI) -> None:
    run = begun(store, "Mixed")
    assert send_signal(store, run, "paid", {"text": "soon"}).step == "t"
    assert send_signal(store, run, "paid", {"text": "again"}).step == ""
    assert send_signal(store, run, "paid", {"amount": 3}).step == "p"
    report = go_on(store, run)
    assert report.outputs == {"amount": 3, "text": "soon"}


def test_a_computed_name(store: PersistenceAPI) -> None:
    run = begun(store, "Named", order="7")
    assert awaited(store, run) == [("paid-7", "p")]
    assert send_signal(store, run, "paid", {"amount": 1}).step == ""
    assert send_signal(store, run, "paid-7", {"amount": 2}).step == "p"
    assert go_on(store, run).outputs == {"amount": 2}


def test_a_facet_without_returns_needs_no_value(store: PersistenceAPI) -> None:
    run = begun(store, "Pinged")
    assert send_signal(store, run, "ping").step == "p"
    assert go_on(store, run).outputs == {"done": True}


def test_a_default_of_the_return_clause_counts(store: PersistenceAPI) -> None:
    run = begun(store, "Three")
    send_signal(store, run, "note", {"text": "a"})
    go_on(store, run)
    waits = [task.params for task in store.find_tasks(TaskFilter(via="signal:note", hold="elsewhere"))]
    assert waits == [{"n": 1}]


def test_signals_of_other_runs_are_left_alone(store: PersistenceAPI) -> None:
    one, other = begun(store, "One", order="1"), begun(store, "One", order="2")
    send_signal(store, other, "paid", {"amount": 2}, id="same")
    send_signal(store, one, "paid", {"amount": 1}, id="same")
    assert go_on(store, one).outputs == {"amount": 1}
    assert go_on(store, other).outputs == {"amount": 2}


# -- repeated -------------------------------------------------------------------------------------------------


def test_a_repeated_id_changes_nothing(store: PersistenceAPI) -> None:
    run = begun(store, "Pair")
    assert send_signal(store, run, "paid", {"amount": 1}, id="x").delivered
    again = send_signal(store, run, "paid", {"amount": "anything"}, id="x")
    assert (again.delivered, again.step, again.id) == (False, "a", "x")
    assert (kept(store, run), awaited(store, run)) == ([], [("paid", "b")])
    send_signal(store, run, "paid", {"amount": 2}, id="y")
    go_on(store, run)
    late = send_signal(store, run, "paid", {"amount": 1}, id="x")
    assert (late.delivered, late.step) == (False, "a")


def test_many_deliver_the_same_at_once(store: PersistenceAPI) -> None:
    run = begun(store, "Pair")
    with ThreadPoolExecutor(4) as threads:
        done = list(threads.map(lambda _: send_signal(store, run, "paid", {"amount": 1}, id="x"), range(8)))
    assert sum(each.delivered for each in done) == 1
    assert awaited(store, run) == [("paid", "b")]


# -- refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "error", "said"),
    [
        (
            "payd",
            {"amount": 1},
            UnknownSignal,
            "shop.One waits for no signal 'payd'; it waits for: paid",
        ),
        ("note", {"text": "x"}, UnknownSignal, "shop.One waits for no signal 'note'; it waits for: paid"),
        ("paid", {"amount": "much"}, SignalRefused, "'amount': expected Double, got String"),
        ("paid", {}, SignalRefused, "lacks amount (it returns (amount: Double))"),
        ("paid", None, SignalRefused, "lacks amount"),
        ("paid", {"amount": 1, "curency": "EUR"}, SignalRefused, "unknown return field 'curency'"),
        ("paid", {"amount": float("nan")}, PayloadError, "not plain JSON"),
        ("paid", [1], SignalRefused, "a map of return values"),
        ("", {"amount": 1}, InputError, "the name of the signal"),
        ("x" * 513, {"amount": 1}, InputError, "the name of the signal"),
        ("a\nb", {"amount": 1}, InputError, "the name of the signal"),
    ],
)
def test_what_does_not_fit_is_refused(
    store: PersistenceAPI, name: str, value: Any, error: type[Exception], said: str
) -> None:
    program = choose_workflow(compile_source(ONLY_CONSTANT, name="shop.afl"), "shop.One")
    run = submit(store, program, {"order": "7"}).run
    with pytest.raises(error) as refused:
        send_signal(store, run, name, value)
    assert said in str(refused.value)
    assert kept(store, run) == []


def test_the_signal_of_a_child_run_is_not_one_of_its_parent(store: PersistenceAPI) -> None:
    source = (
        ONLY_CONSTANT.rstrip().removesuffix("}")
        + """
        facet Inside(order: String) => (amount: Double) andThen {
            one = One(order = $.order)
            yield Inside(amount = one.amount)
        }
        workflow Apart() => (amount: Double) andThen {
            one = One(order = "a") with Run()
            yield Apart(amount = one.amount)
        }
        workflow Within() => (amount: Double) andThen {
            one = Inside(order = "a")
            yield Within(amount = one.amount)
        }
    }"""
    )
    compiled = compile_source(source, name="shop.afl")
    apart = submit(store, choose_workflow(compiled, "shop.Apart"), {}).run
    with pytest.raises(UnknownSignal, match=r"shop\.Apart waits for no signal 'paid'; it has no"):
        send_signal(store, apart, "paid", {"amount": 1})
    within = submit(store, choose_workflow(compiled, "shop.Within"), {}).run
    assert send_signal(store, within, "paid", {"amount": 1}).delivered


ONLY_CONSTANT = """namespace shop {
    event facet Paid(order: String) => (amount: Double) with Signal("paid")
    event facet Note(n: Long) => (text: String) with Signal("note")
    workflow One(order: String) => (amount: Double) andThen {
        p = Paid(order = $.order)
        yield One(amount = p.amount)
    }
}
"""


def test_an_id_is_bounded_and_a_value_too(store: PersistenceAPI) -> None:
    run = begun(store, "Three")
    with pytest.raises(InputError, match="the id of the signal"):
        send_signal(store, run, "note", {"text": "a"}, id="x" * 513)
    with pytest.raises(PayloadError, match="the value of signal note is"):
        send_signal(store, run, "note", {"text": "x" * (1 << 20)})
    assert (kept(store, run), awaited(store, run)) == ([], [("note", "a")])


def test_an_unknown_run_and_one_that_is_over(store: PersistenceAPI) -> None:
    with pytest.raises(UnknownRun):
        send_signal(store, "01nothing", "paid", {"amount": 1})
    run = begun(store, "One", order="7")
    control.cancel(store, run)
    with pytest.raises(RunOver, match="canceled; it receives no signals"):
        send_signal(store, run, "paid", {"amount": 1})
    assert kept(store, run) == []


def test_a_run_that_ends_meanwhile_takes_none(store: PersistenceAPI) -> None:
    run = begun(store, "One", order="7")
    control.cancel(store, run)
    signal = SignalDefinition(run, "x", "paid", {"amount": 1}, wall_ms())
    assert store.add_signal(signal) is SignalStored.OVER
    signal.workflow_id = "nobody"
    assert store.add_signal(signal) is SignalStored.OVER
    assert store.get_signals(WorkflowId("nobody")) == []


_BOUNDED = ("persistence.signals", "signals", "stores.sql_store.signals", "stores.mongo.signals")


@pytest.mark.parametrize(("open_store", "most"), QUEUES.items(), indirect=["open_store"])
def test_the_queue_of_a_name_is_bounded(
    store: PersistenceAPI, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in _BOUNDED:
        monkeypatch.setattr(f"afl.runtime.{module}.MOST_UNRECEIVED", most)
    run = submitted(store, "Three")
    for number in range(most):
        signal = SignalDefinition(run, str(number), "note", {"text": f"{number};"}, wall_ms())
        assert store.add_signal(signal) is SignalStored.STORED
    with pytest.raises(SignalQueueFull, match=f"keeps {most:,} signals 'note'"):
        send_signal(store, run, "note", {"text": "one more"}, id="more")
    assert store.get_signal(WorkflowId(run), "more") is None
    assert send_signal(store, run, "ping").delivered
    assert go_on(store, run).outputs == {"texts": "0;1;2;"}


@pytest.mark.parametrize("name", ["", "x" * 600, "a\nb"])
def test_a_name_that_nobody_could_deliver_fails_the_step(store: PersistenceAPI, name: str) -> None:
    run = submitted(store, "Bad", name=name)
    outputs = go_on(store, run).outputs
    assert outputs["kind"] == "BadPolicy"
    assert outputs["why"].startswith("Signal: the name is")


# -- races ----------------------------------------------------------------------------------------------------


def test_a_delivery_and_a_creation_at_the_same_moment(open_store: OpenStore) -> None:
    """Whoever is second sees the other: the run comes to its end without a sweep."""
    here, there = open_store(), open_store()
    for number in range(6):
        run = submitted(here, "One", order=str(number))
        start = threading.Barrier(2)

        def deliver(run: str = run, start: threading.Barrier = start) -> None:
            start.wait()
            send_signal(there, run, "paid", {"amount": 1})

        with ThreadPoolExecutor(1) as threads:
            delivered = threads.submit(deliver)
            start.wait()
            go_on(here, run)
            delivered.result()
        assert go_on(here, run).outputs == {"amount": 1}


def test_many_deliverers_and_many_steps(open_store: OpenStore) -> None:
    stores = [open_store() for _ in range(3)]
    run = begun(stores[0], "Many", ns=list(range(9)))
    with ThreadPoolExecutor(3) as threads:
        done = list(
            threads.map(lambda n: send_signal(stores[n % 3], run, "note", {"text": str(n)}), range(9))
        )
    sweep.receive_lost_signals(Evaluator(stores[0]))
    assert all(each.delivered for each in done)
    assert (kept(stores[0], run), awaited(stores[0], run)) == ([], [])
    assert go_on(stores[0], run).status == ExecutionStatus.COMPLETED
    results = [task.result or {} for task in stores[0].get_tasks_by_workflow(WorkflowId(run))]
    assert sorted(each["text"] for each in results) == sorted(str(n) for n in range(9))


def test_many_steps_that_one_facet_waits_with(store: PersistenceAPI) -> None:
    """More than are looked at at once, and those that take the value come last."""
    run = begun(store, "Crowd", ns=list(range(20)))
    assert len(awaited(store, run)) == 21
    assert send_signal(store, run, "paid", {"text": "x"}).step == "t"
    for number in range(20):
        store.add_signal(SignalDefinition(run, str(number), "paid", {"amount": number}, wall_ms()))
    assert sweep.receive_lost_signals(Evaluator(store)) == 20
    assert awaited(store, run) == []


def test_a_signal_is_received_once(store: PersistenceAPI) -> None:
    """Two that look at the same moment: the second one's outcome is refused, and writes nothing."""
    run = begun(store, "Pair")
    signal = SignalDefinition(run, "x", "paid", {"amount": 1}, wall_ms())
    assert store.add_signal(signal) is SignalStored.STORED
    outcomes = []
    for task in store.get_signal_tasks(WorkflowId(run), "paid"):
        waiting = a_waiting_step(task.step_id, run)
        outcomes.append(an_outcome(waiting, task, amount=1.0))
    given = [signaled(each, "x") for each in outcomes]
    assert store.finish(given[:1]) == [True]
    assert store.finish(given[1:]) == [False]
    assert awaited(store, run) == [("paid", "b")]
    assert store.finish([signaled(outcomes[1], "nothing")]) == [False]


def signaled(outcome: Any, id: str) -> Any:
    outcome.task.owner = ""
    return type(outcome)(outcome.step, outcome.task, elsewhere=True, signal_id=id)


# -- what a crash leaves --------------------------------------------------------------------------------------


def test_a_sweep_gives_what_was_left(store: PersistenceAPI) -> None:
    run = begun(store, "One", order="7")
    lost = SignalDefinition(run, "x", "paid", {"amount": 2}, wall_ms())
    assert store.add_signal(lost) is SignalStored.STORED  # and there the deliverer died
    assert store.get_receivable() == [(run, "paid")]
    assert sweep.receive_lost_signals(Evaluator(store)) == 1
    assert store.get_receivable() == []
    assert go_on(store, run).outputs == {"amount": 2}


def test_whoever_takes_the_run_up_again_gives_it_too(store: PersistenceAPI) -> None:
    for resumed in (lambda run: go_on(store, run).outputs, lambda run: Evaluator(store).resume(run).outputs):
        run = begun(store, "One", order="7")
        store.add_signal(SignalDefinition(run, "x", "paid", {"amount": 2}, wall_ms()))
        assert resumed(WorkflowId(run)) == {"amount": 2}


def test_a_repeated_delivery_gives_it_too(store: PersistenceAPI) -> None:
    run = begun(store, "One", order="7")
    store.add_signal(SignalDefinition(run, "x", "paid", {"amount": 2}, wall_ms()))
    again = send_signal(store, run, "paid", {"amount": 2}, id="x")
    assert (again.delivered, again.step) == (False, "p")


# -- cancel, pause, timeout, retry, retention -----------------------------------------------------------------


def test_a_canceled_run_tells_nobody(store: PersistenceAPI) -> None:
    run = begun(store, "One", order="7")
    control.cancel(store, run)
    (task,) = store.get_tasks_by_workflow(WorkflowId(run))
    assert (task.state, task.hold) == (TaskState.CANCELED, "")
    assert store.ended_elsewhere("signal") == []


def test_an_operator_may_give_the_result_instead(store: PersistenceAPI) -> None:
    run = begun(store, "One", order="7")
    control.continue_step(store, f"{run}/0/p", {"amount": 9})
    assert store.ended_elsewhere("signal") == []
    assert go_on(store, run).outputs == {"amount": 9}


def test_a_paused_run_receives_and_goes_on_later(store: PersistenceAPI) -> None:
    run = begun(store, "One", order="7")
    control.pause(store, run)
    assert send_signal(store, run, "paid", {"amount": 1}).step == "p"
    assert go_on(store, run).status == ExecutionStatus.PAUSED
    control.unpause(store, run)
    assert go_on(store, run).outputs == {"amount": 1}


def test_a_signal_that_does_not_come_in_time_is_caught(store: PersistenceAPI) -> None:
    run = begun(store, "Hasty")

    def over() -> dict[str, Any]:
        sweep.reclaim(Evaluator(store))
        return go_on(store, run).outputs

    assert eventually(over) == {"why": "signal paid did not come within 1 ms", "kind": "Timeout"}
    assert store.ended_elsewhere("signal") == []


def test_another_attempt_receives_what_came_in_between(store: PersistenceAPI) -> None:
    run = begun(store, "Again")
    (task,) = store.get_tasks_by_workflow(WorkflowId(run))
    eventually(lambda: store.reclaim() or stored_task(store, task.uuid).hold == "timeout")
    assert send_signal(store, run, "paid", {"amount": 1}).step == ""
    sweep.judge(Evaluator(store))
    assert (kept(store, run), awaited(store, run)) == ([], [])
    assert go_on(store, run).outputs == {"amount": 1}


def test_a_retried_run_waits_again_and_keeps_what_it_had(store: PersistenceAPI) -> None:
    run = begun(store, "Pair")
    send_signal(store, run, "paid", {"amount": 1}, id="x")
    send_signal(store, run, "note", {"text": "kept"})
    go_on(store, run)
    control.cancel(store, run)
    control.retry(store, run)
    assert kept(store, run) == [("note", {"text": "kept"})]
    assert go_on(store, run).status == ExecutionStatus.PAUSED
    assert awaited(store, run) == [("paid", "b")]
    assert not send_signal(store, run, "paid", {"amount": 1}, id="x").delivered
    assert send_signal(store, run, "paid", {"amount": 2}, id="y").step == "b"
    assert go_on(store, run).outputs == {"first": 1, "second": 2}


def test_a_retried_run_has_what_it_received_while_it_was_paused(store: PersistenceAPI) -> None:
    run = begun(store, "One", order="7")
    control.pause(store, run)
    send_signal(store, run, "paid", {"amount": 1}, id="x")
    control.cancel(store, run)
    control.retry(store, run)
    assert go_on(store, run).outputs == {"amount": 1}


@of_stores(offers="retention")
def test_signals_go_with_their_run(store: PersistenceAPI) -> None:
    run = begun(store, "Pair")
    send_signal(store, run, "paid", {"amount": 1}, id="x")
    send_signal(store, run, "note", {"text": "a"}, id="y")
    control.cancel(store, run)
    assert store.delete_runs(wall_ms() + 1_000, 10) == 1
    assert [store.get_signal(WorkflowId(run), id) for id in ("x", "y")] == [None, None]


def test_nothing_is_looked_for_where_no_facet_waits_for_signals(store: PersistenceAPI) -> None:
    program = choose_workflow(compile_source("workflow W() andThen { }", name="w.afl"), "W")
    assert receive_signals(store, program, WorkflowId("nobody")) == 0


def test_the_form_of_a_value(store: PersistenceAPI) -> None:
    run = begun(store, "Three")
    form = signaling.signal_form(store, run, "note")
    assert [(field.name, field.type, field.required) for field in form.fields] == [
        ("text", "String", True),
        ("copies", "Long", False),
    ]
    assert runs.find(store, run).state == RunnerState.RUNNING
