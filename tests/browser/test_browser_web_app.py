"""The web application of the examples, used in a browser as its visitors would."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from support.eventually import eventually

from browser.page_watch import PageWatch

FOLDER = Path(__file__).parents[2] / "examples/web_app"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[str]:
    """Its address."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(FOLDER), "--port", str(port), "app:app"]
    environment = {**os.environ, "AFL_STORE": f"sqlite:///{tmp_path}/orders.db"}
    with subprocess.Popen([*command, "--log-level", "warning"], env=environment) as server:
        eventually(lambda: _answers(url), server.poll)
        yield url
        server.terminate()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=10):
            return True
    except urllib.error.URLError:
        return False


def test_an_order_is_sent_followed_and_released(page: Page, watch: PageWatch, shop: str) -> None:
    watch.allow_host(shop)
    page.goto(shop)
    page.get_by_label("Number").fill("77")
    page.get_by_role("button", name="Order", exact=True).click()
    release = page.get_by_role("button", name="Release the amount")
    expect(release).to_be_enabled()
    expect(page.get_by_role("listitem")).to_have_text(["step-waiting released human:finance"])
    release.click()
    expect(page.get_by_role("status")).to_have_text('Order 77: {"receipt":"receipt-77","parcel":"parcel-77"}')
    expect(page.get_by_role("listitem").last).to_have_text("run-completed")
