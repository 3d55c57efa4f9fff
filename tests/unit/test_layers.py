"""The order of the layers on the page about the architecture is the one of the linter."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "background" / "architecture.md"


def test_the_page_has_the_order_that_the_linter_holds() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert not settings["exclude_type_checking_imports"]
    (held,) = [each for each in settings["contracts"] if each.get("containers") == ["liqod"]]
    assert held["exhaustive"]
    assert "ignore_imports" not in held
    _, _, rest = PAGE.read_text().partition("## Layers\n")
    block = [line.split() for line in rest.splitlines() if line.startswith("    ")]
    wanted = [layer.split(" | ") for layer in held["layers"]]
    assert block[: len(wanted)] == wanted
