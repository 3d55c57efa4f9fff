"""``make site``: the pages as a folder of HTML, which reads without a server or the internet.

Run as `python -m deploy.site FOLDER`. Zensical makes it. The pages are laid out as they are in the
repository, with the README as the first one, so that each link is right in both places. A link that
leads nowhere is an error.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from deploy.outcome import Unbuildable

ROOT: Final = Path(__file__).parents[1]
PARTS: Final = {
    "start": "Start",
    "how-to": "How to",
    "reference": "Reference",
    "background": "Background",
}
"""The parts of the pages by their folders, in the order in which they are shown."""
INDEX: Final = "index.md"
"""The page of a folder: its README, or one that is made where a link leads to the folder."""
ABOUT: Final = ("CHANGELOG.md", "CONTRIBUTING.md")
"""Pages beside the README that are shown last, where they are there."""
LINK: Final = re.compile(r"(\]\()(?!https?:|#)([^)#\s]+)")
ITEM: Final = re.compile(r"(?:-|\d+\.) +")
HEADING: Final = re.compile(r"^# (.*)", re.MULTILINE)
GROUP: Final = re.compile(r"^## ", re.MULTILINE)
STYLE: Final = """\
/* Colours by which text and links are at least 4.5 times as light or dark as what is behind. */
[data-md-color-scheme] {
  --md-typeset-a-color: #0b57a4;
  --md-accent-fg-color: #2f45c0;
  --md-default-fg-color--light: #4a4a4a;
  --md-default-fg-color--lighter: #5f5f5f;
  --md-code-hl-comment-color: #5f5f5f;
}
[data-md-color-scheme="slate"] {
  --md-typeset-a-color: #8ab8f0;
  --md-accent-fg-color: #a5b4ff;
  --md-default-fg-color--light: #c4c4c4;
  --md-default-fg-color--lighter: #b0b0b0;
  --md-code-hl-comment-color: #b0b0b0;
}
/* A wide table is scrolled by itself, so that the page is as wide as the screen. */
.md-typeset table:not([class]) { display: block; max-width: 100%; overflow-x: auto; }
"""


ELSEWHERE: Final = "https://unpkg.com/iframe-worker/shim"
"""A script that pages of the tool load from elsewhere; ours is loaded in its place."""
WORKER: Final = """\
// A browser gives a page that is read from a folder no workers, and the search is one. Here a frame
// without a picture runs its script.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      };
      const script = inside.document.createElement("script");
      script.src = new URL(url, document.baseURI).href;
      this.ready = new Promise((done, failed) => {
        script.onload = done;
        script.onerror = failed;
      });
      this.ready.catch((event) => this.onerror?.(event));
      inside.document.body.append(script);
    }
    postMessage(data) {
      const inside = this.frame.contentWindow;
      this.ready.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
"""


CONFIGURATION: Final = """\
[project]
site_name = "liqod"
site_description = "Kubernetes clusters that lend each other capacity, peer to peer"
docs_dir = "pages"
site_dir = "site"
use_directory_urls = false
extra_css = ["liqod.css"]
nav = {nav}
[project.theme]
font = false
features = ["navigation.top", "navigation.sections", "navigation.indexes", "search.highlight"]
[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
[project.extra]
generator = false
[project.plugins.search]
[project.plugins.offline]
"""


def title(page: Path) -> str:
    """The heading of a page."""
    found = HEADING.search(page.read_text())
    return found[1].replace("`", "") if found else page.stem


def navigation(root: Path) -> str:
    """The tree of pages that are laid out, as it is shown, in TOML."""
    found = [_entry("liqod", _text(INDEX))]
    for part, name in PARTS.items():
        if pages := list(_part(root, root / "docs" / part)):
            found.append(_entry(name, _list(pages)))
    about = (root / name for name in ABOUT if (root / name).exists())
    return _list([*found, _entry("About", _list(_page(root, each) for each in about))])


def _part(root: Path, folder: Path) -> Iterator[str]:
    """The entries of a part, in the order in which its own page links to them, by its headings.

    Where it has none it is the order of the first page. What is linked nowhere comes last.
    """
    left = {each.resolve(): each for each in sorted(folder.glob("*.md"), key=title)}
    own = left.pop((folder / INDEX).resolve(), None)
    if own is not None:
        yield _text(own.relative_to(root).as_posix())
    start = own or root / INDEX
    first, *groups = GROUP.split(start.read_text()) if own else [start.read_text()]
    yield from _linked(root, start, first, left)
    for each in groups:
        heading, _, text = each.partition("\n")
        if pages := list(_linked(root, start, text, left)):
            yield _entry(heading, _list(pages))
    yield from (_page(root, each) for each in left.values())


def _linked(root: Path, page: Path, text: str, left: dict[Path, Path]) -> Iterator[str]:
    """The entries of pages that a text links to, which are taken out of those that are left."""
    for _, link in LINK.findall(text):
        there = left.pop((page.parent / link).resolve(), None)
        if there is not None:
            yield _page(root, there)


def _page(root: Path, page: Path) -> str:
    return _entry(title(page), _text(page.relative_to(root).as_posix()))


def _list(entries: Iterable[str]) -> str:
    return f"[{', '.join(entries)}]"


def _entry(name: str, value: str) -> str:
    return f"{{{_text(name)} = {value}}}"


def _text(value: str) -> str:
    """A text as TOML has it, which is as JSON has it."""
    return json.dumps(value, ensure_ascii=False)


def lay_out(root: Path, into: Path) -> None:
    """Copies all pages, and what they link to, by their places in the repository."""
    shutil.copytree(root / "docs", into / "docs")
    for name in ("README.md", *ABOUT):
        if (root / name).exists():
            shutil.copy2(root / name, into / name)
    for page in into.glob("docs/*/README.md"):
        page.rename(page.with_name(INDEX))
    for page in sorted(into.rglob("*.md")):
        text = LINK.sub(partial(_followed, page=page, root=root, into=into), page.read_text())
        page.write_text(indented(text))
    # The first page has a name of its own there.
    (into / "README.md").rename(into / "index.md")
    (into / "liqod.css").write_text(STYLE)


def _followed(link: re.Match[str], page: Path, root: Path, into: Path) -> str:
    """A link as the site has it; what it leads to is there afterwards."""
    there = (page.parent / link[2]).resolve()
    name = there.relative_to(into.resolve())
    if name == Path("README.md") or (name.name == "README.md" and (there.parent / INDEX).exists()):
        return f"{link[1]}{link[2].removesuffix('README.md')}{INDEX}"
    if (root / name).is_dir():
        if not there.exists():
            shutil.copytree(root / name, there)
        if not (there / INDEX).exists():
            (there / INDEX).write_text("\n".join(_listing(there)))
        return f"{link[1]}{link[2].rstrip('/')}/index.md"
    if not there.exists() and (root / name).is_file():
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, there)
    return link[0]


def indented(text: str) -> str:
    """A page whose lists have what belongs to an item four columns in, as the tool reads them.

    GitHub reads two or three, by the width of the item's mark.
    """
    lines, more, fenced = [], 0, False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        mark = None if fenced else ITEM.match(line)
        if mark is not None:
            more = 4 - len(mark[0])
        elif fenced or (line and not line.startswith(" ")):
            more = 0
        lines.append(" " * more + line if line.startswith(" ") else line)
    return "\n".join(lines) + "\n"


def _listing(folder: Path) -> Iterator[str]:
    yield f"# {PARTS.get(folder.name, folder.name)}\n"
    for each in sorted(each for each in folder.rglob("*") if each.is_file()):
        name = each.relative_to(folder).as_posix()
        yield f"- [{title(each) if each.suffix == '.md' else name}]({name})"


def build(root: Path, into: Path) -> None:
    """Makes the site of a checkout in a folder, which is made anew."""
    with tempfile.TemporaryDirectory(prefix="liqod-site-") as name:
        work = Path(name)
        lay_out(root, work / "pages")
        text = CONFIGURATION.format(nav=navigation(work / "pages"))
        (work / "zensical.toml").write_text(text)
        words = (sys.executable, "-m", "zensical", "build", "--strict", "--clean")
        ran = subprocess.run(words, cwd=work, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise Unbuildable(_plain(ran.stdout + ran.stderr))
        _keep_here(work / "site")
        shutil.rmtree(into, ignore_errors=True)
        shutil.copytree(work / "site", into)


def _keep_here(site: Path) -> None:
    """Has each page load the script from this folder."""
    (site / "worker.js").write_text(WORKER)
    for page in site.rglob("*.html"):
        own = "../" * (len(page.relative_to(site).parts) - 1) + "worker.js"
        page.write_text(page.read_text().replace(ELSEWHERE, own))


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def main(into: Path) -> int:
    """Make the site, and print its first page; the exit status."""
    try:
        build(ROOT, into)
    except Unbuildable as reason:
        sys.stderr.write(f"site: {reason}\n")
        return 1
    print(into / "index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
