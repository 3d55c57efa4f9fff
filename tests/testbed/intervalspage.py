"""Writes ``docs/intervals.md``: the times by which liqod works that an operator may see.

Run ``python -m tests.testbed.intervalspage`` after a change of :mod:`liqod.model.peering.intervals`
or of a setting that is a time.
"""

import ast
import inspect
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from liqod.config import Config, PeerSettings
from liqod.model.peering import intervals

PAGE: Final = Path(__file__).parents[2] / "docs" / "intervals.md"
_TIME: Final = re.compile(r"(seconds|timeout|lifetime|renew_at)$")
"""How the names of settings end that are times, where their text does not say so."""
HEAD: Final = """# Intervals

The times by which liqod works and that can be seen from outside, in seconds. Made by
`python -m tests.testbed.intervalspage`; do not edit.

## Settings

These are set in the [configuration](configuration.md), under the table that is named here.

| setting | default | what it is |
| --- | --- | --- |
"""
FIXED: Final = """
## Fixed

By these times a cluster and its peers are judged to live. They depend on each other, and both sides
of a peering rely on them, so they are no settings. To change one for an image of your own, edit
`liqod/model/peering/intervals.py`, where some are computed from others, and run
`tests/unit/model/test_intervals.py`, which tells what must hold between them.

| name | seconds | what it is |
| --- | --- | --- |
"""
REST: Final = """
Any other time belongs to one module and stands at its head: `grep -rn '^\"\"\"Seconds' liqod`.
"""


def page() -> str:
    """The page's text."""
    settings = "".join(f"| `{name}` | {default} | {text} |\n" for name, default, text in set_ones())
    fixed = "".join(f"| `{name}` | {value:g} | {text} |\n" for name, value, text in fixed_ones())
    return HEAD + settings + FIXED + fixed + REST


def set_ones() -> Iterator[tuple[str, str, str]]:
    """The settings that are times: name, default, and what the configuration says of each."""
    for table in msgspec.structs.fields(Config):
        struct = PeerSettings if table.name == "peers" else table.type
        told = dict(_attributes(struct))
        for field in msgspec.structs.fields(struct):
            text = told.get(field.name, "")
            if re.search(r"\bseconds\b", text) or _TIME.search(field.name):
                default = field.default if isinstance(field.default, int | float) else 0
                yield (
                    f"{table.name}.{field.name}",
                    f"{default:.3g}" if default < 1 else f"{default:g}",
                    text,
                )


def fixed_ones() -> Iterator[tuple[str, float, str]]:
    """The constants of :mod:`liqod.model.peering.intervals`, in their order there."""
    lines = ast.parse(inspect.getsource(intervals)).body
    for line, after in itertools.pairwise(lines):
        if not isinstance(line, ast.AnnAssign) or not isinstance(line.target, ast.Name):
            continue
        name = line.target.id
        assert isinstance(after, ast.Expr), f"{name} has no text after it"
        yield name, getattr(intervals, name), _plain(ast.literal_eval(after.value))


def _attributes(struct: type[Any]) -> Iterator[tuple[str, str]]:
    attributes = (inspect.getdoc(struct) or "").partition("Attributes:\n")[2]
    for name, text in re.findall(r"^    ([a-z_]+): ((?:.|\n {8,})*)", attributes, re.M):
        yield name, _plain(text)


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("``", "`").replace("|", "\\|").rstrip(".")


if __name__ == "__main__":
    PAGE.write_text(page())
