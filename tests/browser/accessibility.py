"""What axe-core says about a page."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page
from support.properties import EXPLORING

_GRAVE = ("serious", "critical")
_SCRIPT = Axe().axe_script


def check_accessible(page: Page) -> None:
    """No serious finding; each one is named with the first elements it is about."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(_SCRIPT)
    _judge(page, {"resultTypes": ["violations"]})


def check_contrast_in_the_dark(page: Page) -> None:
    """The same page, after `check_accessible`, in the other theme: only its colors are new."""
    page.emulate_media(color_scheme="dark")
    settle(page)
    _judge(page, {"runOnly": ["color-contrast"], "resultTypes": ["violations"]})


def settle(page: Page) -> None:
    """Wait until what was emulated is drawn: a color changes by a transition, however short, and until it is over axe
    reads the color of before."""
    page.evaluate(_SETTLED)


def _judge(page: Page, options: dict[str, Any]) -> None:
    if not EXPLORING:
        page.evaluate(_ONE_OF_EACH)
    found = page.evaluate("options => axe.run(document, options).then(told => told.violations)", options)
    grave = [_told(each) for each in found if each["impact"] in _GRAVE]
    assert not grave, "\n".join([f"axe on {page.url}:", *grave])


# Three quarters of axe's time go into contrasts, and most texts of a page look as one before them: the cells of a
# column, the cards of a list. A contrast is measured once for all texts with the same styles and classes on the same
# backgrounds of elements with the same classes; AFL_EXPLORE measures all of them.
_ONE_OF_EACH = """() => {
  const seen = new Set(), numbers = new Map(), grounds = new Map([[null, 0]]);
  const number = text => numbers.get(text) ?? (numbers.set(text, numbers.size + 1), numbers.size);
  const drawn = (element, names) => {
    const style = getComputedStyle(element);
    return [element.tagName, element.getAttribute("class"), ...names.map(name => style[name])].join("|");
  };
  const ground = element => {
    if (!grounds.has(element))
      grounds.set(element, number(ground(element.parentElement) + drawn(element, GROUND)));
    return grounds.get(element);
  };
  const GROUND = ["backgroundColor", "backgroundImage", "backgroundClip", "opacity", "position", "zIndex", "display",
    "visibility", "overflow", "filter", "mixBlendMode"];
  const LETTERS = ["color", "fontSize", "fontWeight", "textShadow", "webkitTextStroke"];
  const FIELDS = ["INPUT", "SELECT", "TEXTAREA"];
  const isText = node => node.nodeType === Node.TEXT_NODE && node.data.trim();
  for (const element of document.body.querySelectorAll("*")) {
    const hasText = element.checkVisibility()
      && (FIELDS.includes(element.tagName) || [...element.childNodes].some(isText));
    const look = hasText && number(ground(element) + drawn(element, LETTERS));
    element.toggleAttribute("data-alike", !hasText || seen.has(look));
    seen.add(look);
  }
  axe.configure({ rules: [{ id: "color-contrast", selector: ":not([data-alike])" }] });
}"""

_SETTLED = """async () => {
  const frame = () => new Promise(requestAnimationFrame);
  const changing = () => document.getAnimations().some(each =>
    each.effect.getComputedTiming().endTime !== Infinity && each.playState === "running");
  do { await frame(); await frame(); } while (changing());
}"""


def check_fits(page: Page) -> None:
    """Nothing is wider than the window: a phone would scroll sideways. Styles may be the last to arrive."""
    page.wait_for_load_state()
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
