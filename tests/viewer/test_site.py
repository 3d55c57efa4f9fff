"""The site as people read it: from a folder, in a real browser, without anything from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from deploy import site
from tests.testbed.api import wait_until
from tests.viewer.browser import Browser

pytestmark = [pytest.mark.viewer, pytest.mark.usefixtures("viewers")]

NARROW = 360
"""The width of a small telephone's screen."""
SHOWN = (
    *("What liqod is", "The demo", "by package", "by chart", "One application"),
    *("How to", "Get liqod", "Peer", "Reference", "Background"),
)
"""What the first page leads to, in the order in which a newcomer needs it."""
HEADINGS = """
JSON.stringify([...document.querySelectorAll("article :is(h1, h2, h3, h4, h5, h6)")]
  .map(each => Number(each.tagName[1])))
"""
# All pages have the same scripts and styles.
PUT = """
(() => {{
  const base = document.querySelector("base") ?? document.createElement("base");
  base.href = {address};
  document.head.append(base);
  document.body.innerHTML = {body};
  const drawn = [...document.images].map(each => each.decode().catch(() => {{}}));
  return Promise.all(drawn).then(() => document.baseURI);
}})()
"""
LOADED = 'JSON.stringify(performance.getEntriesByType("resource").map(each => each.name))'
# Text that is too near to what is behind it, as WCAG counts (level AA).
PALE = """
JSON.stringify((() => {
  const pen = document.createElement("span");
  document.body.append(pen);
  const channels = color => {
    const found = color.match(/[\\d.]+/g).map(Number);
    return found.length > 3 ? found : [...found, 1];
  };
  const over = (top, under) => top.slice(0, 3)
    .map((each, i) => each * top[3] + under[i] * (1 - top[3])).concat(1);
  const light = color => color.slice(0, 3)
    .map(each => each / 255)
    .map(each => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)
    .reduce((sum, each, i) => sum + each * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => {
    if (!element) return [255, 255, 255, 1];
    const own = channels(getComputedStyle(element).backgroundColor);
    return own[3] === 1 ? own : over(own, behind(element.parentElement));
  };
  const found = new Set();
  for (const element of document.querySelectorAll("article *, nav *")) {
    const text = [...element.childNodes].filter(each => each.nodeType === 3)
      .map(each => each.data.trim()).join(" ").trim();
    if (!text || !element.checkVisibility({opacityProperty: true, visibilityProperty: true}))
      continue;
    const style = getComputedStyle(element);
    const under = behind(element);
    const [a, b] = [light(over(channels(style.color), under)), light(under)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const large = parseFloat(style.fontSize) >= 24;
    if (ratio < (large ? 3 : 4.5))
      found.add(`${element.tagName}.${element.className} ${style.color} on ${under}: ${ratio}`);
  }
  return [...found];
})())
"""
RESULTS = """
[...document.querySelectorAll("div")].filter(each => each.shadowRoot)
  .map(each => each.shadowRoot.querySelector("ol, ul")?.innerText ?? "").join("")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of this checkout."""
    into = tmp_path_factory.mktemp("site") / "site"
    site.build(site.ROOT, into)
    return into


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser for all of these."""
    made = Browser(tmp_path_factory.mktemp("browser"))
    yield made
    made.close()


def show(browser: Browser, page: Path) -> None:
    """Opens a page, and waits until all of it is there."""
    address = page.as_uri()
    browser.open(address)
    there = f'location.href === "{address}" && document.readyState === "complete"'
    wait_until(str(page), lambda: browser.result(there) == "True", 60, pause=0.05)


def put(browser: Browser, page: Path) -> None:
    """Puts a page in the place of the one that is open, which takes a tenth of opening it."""
    _, _, inside = page.read_text().partition("<body")
    body = inside.partition(">")[2].rpartition("</body>")[0]
    script = PUT.format(address=json.dumps(page.as_uri()), body=json.dumps(body))
    assert browser.result(script) == page.as_uri()


def value(browser: Browser, script: str) -> Any:
    """What a script says in JSON."""
    return json.loads(browser.result(script))


def pages(folder: Path) -> list[Path]:
    """All pages, but for the one that a server shows for those that are not there."""
    return [each for each in sorted(folder.rglob("*.html")) if each.name != "404.html"]


class Names(HTMLParser):
    """The links of a page, and the names to which links can lead in it."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = {""}
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take a tag's."""
        for name, said in attrs:
            if name in {"href", "src"} and said is not None:
                self.links.append(said)
            elif name == "id" and said is not None:
                self.names.add(said)


def test_the_first_page_shows_all_parts_and_loads_nothing_from_elsewhere(
    folder: Path, browser: Browser
) -> None:
    show(browser, folder / "index.html")
    assert browser.result("document.querySelector('h1').firstChild.data") == "liqod"
    shown = browser.result("document.querySelector('nav.md-nav--primary').innerText")
    found = [shown.find(each) for each in SHOWN]
    assert -1 not in found
    assert found == sorted(found)
    assert [each for each in value(browser, LOADED) if not each.startswith("file:")] == []


def test_the_search_finds_a_word_without_a_server(folder: Path, browser: Browser) -> None:
    show(browser, folder / "docs" / "how-to" / "upgrades.html")
    browser.result("document.querySelector('.md-search__button').click()")
    opened = "[...document.querySelectorAll('div')].some(each => each.shadowRoot?.activeElement)"
    wait_until("the search is open", lambda: browser.result(opened) == "True", 30, pause=0.1)
    browser.call("Input.insertText", text="virtual node")
    wait_until("a result", lambda: "Glossary" in browser.result(RESULTS), 30, pause=0.1)
    assert [each for each in value(browser, LOADED) if not each.startswith("file:")] == []


def test_no_page_is_wider_than_a_small_screen_and_headings_have_an_order(
    folder: Path, browser: Browser
) -> None:
    show(browser, folder / "index.html")
    browser.call(
        "Emulation.setDeviceMetricsOverride",
        width=NARROW,
        height=700,
        deviceScaleFactor=1,
        mobile=True,
    )
    try:
        for page in pages(folder):
            put(browser, page)
            wide = int(browser.result("document.documentElement.scrollWidth"))
            assert wide <= NARROW, page
            levels = value(browser, HEADINGS)
            assert levels.count(1) == 1, page
            assert levels[0] == 1, page
            steps = pairwise(levels)
            assert all(below <= above + 1 for above, below in steps), (page, levels)
    finally:
        browser.call("Emulation.clearDeviceMetricsOverride")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["index", "docs/reference/plugins", "docs/how-to/peering"])
def test_text_stands_out_from_what_is_behind_it(
    folder: Path, browser: Browser, name: str, scheme: str
) -> None:
    wanted = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.call("Emulation.setEmulatedMedia", features=wanted)
    try:
        show(browser, folder / f"{name}.html")
        assert value(browser, PALE) == []
    finally:
        browser.call("Emulation.setEmulatedMedia", features=[])


def test_no_link_leads_nowhere(folder: Path) -> None:
    read = {page: Names(page) for page in pages(folder)}
    dead = []
    for page, found in read.items():
        for link in found.links:
            if link.startswith(("http:", "https:", "data:", "mailto:")):
                continue
            name, _, anchor = unquote(link).partition("#")
            there = (page.parent / name).resolve() if name else page
            there = there / "index.html" if there.is_dir() else there
            known = read[there].names if there in read else {anchor}
            if not there.exists() or anchor not in known:
                dead.append(f"{page.relative_to(folder)}: {link}")
    assert dead == []
