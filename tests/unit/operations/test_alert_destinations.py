"""The addresses of AFL_ALERTS, and alerts of tool calls."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from support.alert_inbox import alert_inbox

from afl.kernel.errors import MissingExtraError, SettingError
from afl.kernel.redaction import redacted
from afl.kernel.settings import load_settings
from afl.models import ScriptedModel
from afl.models.scripted import calls
from afl.operations.alerts.destinations import read_destinations
from afl.operations.alerts.service import alert_service
from afl.operations.doctor.diagnosis import diagnose
from afl.operations.people import approvals
from afl.operations.run.runs import opened
from afl.turns import open_agents, tool


def test_an_address_is_for_all_alerts_or_for_some() -> None:
    every, finance, failures = read_destinations(
        "json://a.example/x?method=POST  finance=json://b.example failures=xml://c.example/y"
    )
    assert [each.wants("finance") for each in (every, finance, failures)] == [True, True, False]
    assert [each.wants("") for each in (every, finance, failures)] == [True, False, True]
    assert [each.scheme for each in (every, finance, failures)] == ["json", "json", "xml"]
    assert len({each.key for each in (every, finance, failures)}) == 3
    assert read_destinations("  ") == []


@pytest.mark.parametrize(
    "word", ["nonsense://opensesame", "slack://opensesame", "opensesame@example.org", "f="]
)
def test_what_is_no_address_is_told_without_being_shown(word: str) -> None:
    with pytest.raises(SettingError, match="AFL_ALERTS: address 2 ") as refused:
        read_destinations(f"json://a.example {word}")
    assert "opensesame" not in str(refused.value)


def test_an_address_is_a_secret() -> None:
    address = "json://user:opensesame@alerts.example/path"
    settings = load_settings({"alerts": f"json://a.example {address}"}, environ={})
    assert settings.shown()["alerts"] == "***"
    read_destinations(settings.alerts)
    assert "opensesame" not in redacted(f"could not reach {address}")


def test_without_apprise_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(MissingExtraError, match=r'pip install "agentflow-afl\[alerts\]"'):
        read_destinations("json://a.example")


def test_the_doctor_reads_the_addresses_and_sends_nothing(tmp_path: Path) -> None:
    def found(addresses: str) -> tuple[str, str]:
        given = {"store": f"sqlite:///{tmp_path}/afl.db", "alerts": addresses}
        last = list(diagnose(load_settings(given, environ={})))[-1]
        assert last.check == "alerts"
        return last.level, last.text

    with alert_inbox() as inbox:
        assert found(f"{inbox.address()} finance=xml://b.example") == (
            "ok",
            "they go to json://, xml:// for finance",
        )
        assert inbox.take() == []
    level, text = found("nonsense://opensesame")
    assert level == "error" and "nonsense://" in text and "opensesame" not in text


@tool(approve="finance")
def pay(to: str, cents: int) -> str:
    """Pay somebody."""
    return "paid"


def test_a_tool_call_that_waits_for_someone_is_sent(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/afl.db"

    async def ask() -> str:
        model = ScriptedModel([calls("pay", {"to": "Ada", "cents": 700})])
        async with open_agents(url, model=model) as agents:
            await agents.define("clerk", tools=[pay])
            turn = await agents.send("clerk", "Pay Ada.")
            async with asyncio.timeout(60):
                while not approvals.list_approvals(store):
                    await asyncio.sleep(0.005)
            return turn.agent_turn_id

    with alert_inbox() as inbox:
        settings = load_settings({"store": url, "alerts": inbox.address()}, environ={})
        with opened(settings) as store:
            service = alert_service(store, settings)
            assert service is not None
            service.look()
            turn = asyncio.run(ask())
            service.look()
            service.look()
            (question,) = approvals.list_approvals(store)
            assert inbox.take() == [
                (
                    "Approval for finance: clerk asks to call pay",
                    f"Agent clerk, turn {turn}\nto: Ada\ncents: 700\nafl approvals show {question.id}",
                )
            ]
