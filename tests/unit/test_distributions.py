"""The two distributions of this repository hold all that is theirs, and nothing of each other."""

import ast
import re
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from deploy import chart
from liqod import __version__
from tests.unit.deploy.test_chart import BY_HAND

ROOT = Path(__file__).parents[2]


def _settings(where: Path) -> dict[str, Any]:
    return tomllib.loads((where / "pyproject.toml").read_text())


def _packages(folder: str) -> set[str]:
    found = [each.parent.relative_to(ROOT).parts for each in (ROOT / folder).rglob("__init__.py")]
    # `pip install ./simulator` leaves a folder of this name there.
    return {".".join(parts) for parts in found if "build" not in parts}


def test_the_simulator_ships_each_of_its_packages():
    named = _settings(ROOT / "simulator")["tool"]["setuptools"]["packages"]
    assert set(named) == _packages("simulator")
    assert len(named) == len(set(named))


def test_liqod_ships_neither_the_simulator_nor_tests():
    patterns = _settings(ROOT)["tool"]["setuptools"]["packages"]["find"]["include"]
    packages = set().union(*(_packages(each.name) for each in ROOT.iterdir() if each.is_dir()))
    shipped = {each for each in packages if any(fnmatchcase(each, pattern) for pattern in patterns)}
    assert shipped == _packages("liqod") | _packages("tui")


def test_liqod_needs_no_pytest_and_the_simulator_brings_it():
    ours = {Requirement(each).name for each in _settings(ROOT)["project"]["dependencies"]}
    assert not {each for each in ours if each.startswith("pytest")}
    # The requirements of its wheel are tested with that: tests/simulated/install/test_wheels.py.
    setup = (ROOT / "simulator/setup.py").read_text()
    assert all(each in setup for each in ("liqod=={", '"pytest>=', '"pytest-trio>='))


def test_the_version_stands_in_one_place():
    number = re.compile(rf"(?<![\d.]){re.escape(__version__)}(?![\d.])")
    files = [ROOT / "README.md", ROOT / "Makefile", ROOT / "pyproject.toml"]
    for folder in ("liqod", "tui", "simulator", "docs", "deploy", "systemd"):
        files += [each for each in (ROOT / folder).rglob("*") if each.is_file()]
    left = (".egg-info", "__pycache__")
    files = [each for each in files if not any(part.endswith(left) for part in each.parts)]
    # The chart's are written from that place, and held to it by a test of their own.
    by_hand = {chart.CHART / name for name in BY_HAND}
    written = {each for each in files if each.is_relative_to(chart.CHART)} - by_hand
    files = [each for each in files if each.suffix != ".svg" and each not in written]
    found = [each for each in files if says(number, each)]
    assert found == [ROOT / "liqod/__init__.py"]


def says(number: re.Pattern[str], file: Path) -> bool:
    """True if a file has the number; a module in its values: docstrings may speak of the past."""
    text = file.read_text()
    # Few have it at all, and to parse one takes a hundred times as long as to search it.
    if file.suffix == ".py" and number.search(text):
        text = values(text)
    return bool(number.search(text))


def values(text: str) -> str:
    """The values of a module, without its docstrings."""
    nodes = [*ast.walk(ast.parse(text))]
    prose = {id(each.value) for each in nodes if isinstance(each, ast.Expr)}
    values = [each for each in nodes if isinstance(each, ast.Constant) and id(each) not in prose]
    return "\n".join(str(each.value) for each in values)


def test_the_simulator_imports_nothing_that_is_installed_for_development_alone():
    ours = _settings(ROOT)["project"]
    development = {Requirement(each).name for each in ours["optional-dependencies"]["dev"]}
    brought = {"pytest", "pytest-trio"}
    barred = {each.replace("-", "_") for each in development - brought} - {"textual"}
    shipped = {*(ROOT / "simulator").rglob("*.py")} - {ROOT / "simulator/setup.py"}
    for path in sorted(shipped):
        for node in ast.walk(ast.parse(path.read_text())):
            named = [node.module] if isinstance(node, ast.ImportFrom) else []
            if isinstance(node, ast.Import):
                named = [each.name for each in node.names]
            roots = {(each or "").partition(".")[0] for each in named}
            assert not roots & barred, path
            assert "tests" not in roots, path
