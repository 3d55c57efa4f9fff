"""The pages for newcomers: how they are read by tests, and that README says the same."""

import re
import subprocess

import pytest

from tests.testbed import pages, shownblocks
from tests.testbed.pages import Typed, Written
from tests.testbed.processes import plain_environment

START = pages.ROOT / "docs" / "start"
README = (pages.ROOT / "README.md").read_text()
TEXT = """\
Write this:

```toml
# milan.toml
[webhook]
port = 9444
```

```toml
[webhook]
port = 1
```

```console
$ liqod peer \\
    --cpu 4
peered: milan …
$ liqod status
```
"""


def test_files_and_commands_are_read_in_their_order() -> None:
    assert pages.steps(TEXT) == [
        Written("milan.toml", "# milan.toml\n[webhook]\nport = 9444\n"),
        Typed("liqod peer --cpu 4", ("peered: milan …",)),
        Typed("liqod status"),
    ]


@pytest.mark.parametrize(
    ("shown", "lacking"),
    [
        (("NAME STATUS", "milan   Ready  …"), []),
        (("milan Ready 4s v1", "NAME STATUS"), ["NAME STATUS"]),
        (("milan Ready",), ["milan Ready"]),
        (("m…n Ready … v1", ""), []),
        (("rome Ready …",), ["rome Ready …"]),
    ],
)
def test_lines_that_are_shown_are_found_in_their_order(
    shown: tuple[str, ...], lacking: list[str]
) -> None:
    assert pages.missing(shown, "NAME    STATUS\nmilan   Ready   4s   v1\n") == lacking


def test_readme_installs_as_the_page_does() -> None:
    section = README.partition("## Two clusters of your own\n")[2].partition("\n## ")[0]
    lines = [each.strip() for each in re.findall(r"^ {4}(\S.*)$", section, re.MULTILINE)]
    assert len(lines) == 10
    typed = [
        each.line
        for each in pages.steps((START / "by-package.md").read_text())
        if isinstance(each, Typed)
    ]
    assert [each for each in typed if each in lines] == lines


def test_make_runs_the_demo_that_is_tried() -> None:
    (step,) = pages.steps(shownblocks.whole("start/demo"))
    assert isinstance(step, Typed)
    said = subprocess.run(
        ["bash", "-c", f"{step.line} --dry-run"],
        cwd=pages.ROOT,
        env=plain_environment(),  # a make around the tests has make say more
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said.splitlines()[-1].split()[1:] == ["-m", "liqod", "demo", "--once"]
    assert "    make demo\n" in README


@pytest.mark.parametrize("page", sorted(START.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_for_newcomers_is_short(page) -> None:
    assert len(re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S).split()) < 900
