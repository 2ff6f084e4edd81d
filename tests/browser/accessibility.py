"""What axe-core says about a page."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

_GRAVE = ("serious", "critical")
_SCRIPT = Axe().axe_script


def check_accessible(page: Page) -> None:
    """No serious finding; each one is named with the first elements it is about."""
    page.evaluate(_SCRIPT)
    _judge(page, {"resultTypes": ["violations"]})


def check_contrast_in_the_dark(page: Page) -> None:
    """The same page, after `check_accessible`, in the other theme: only its colors are new."""
    page.emulate_media(color_scheme="dark")
    page.evaluate(_SETTLED)
    _judge(page, {"runOnly": ["color-contrast"], "resultTypes": ["violations"]})


def _judge(page: Page, options: dict[str, Any]) -> None:
    found = page.evaluate("options => axe.run(document, options).then(told => told.violations)", options)
    grave = [_told(each) for each in found if each["impact"] in _GRAVE]
    assert not grave, "\n".join([f"axe on {page.url}:", *grave])


# A color changes by a transition, however short; until it is over axe reads the color of before.
_SETTLED = """async () => {
  const frame = () => new Promise(requestAnimationFrame);
  const changing = () => document.getAnimations().some(each =>
    each.effect.getComputedTiming().endTime !== Infinity && each.playState === "running");
  do { await frame(); await frame(); } while (changing());
}"""


def check_fits(page: Page) -> None:
    """Nothing is wider than the window: a phone would scroll sideways."""
    wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"{page.url} is {wide} pixels wider than the window: {page.evaluate(_WIDEST)}"


_WIDEST = """() => [...document.querySelectorAll("body *")]
  .filter(each => each.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .slice(0, 5).map(each => each.outerHTML.slice(0, 160))"""


def _told(finding: dict[str, Any]) -> str:
    places = "; ".join(
        f"{node['target'][0]} ({node['failureSummary'].splitlines()[-1].strip()})"
        for node in finding["nodes"][:3]
    )
    return f"  {finding['id']} ({finding['impact']}, {len(finding['nodes'])}): {finding['help']}: {places}"
