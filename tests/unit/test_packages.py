"""Packages and their content: liqod without its simulator, and the simulator by itself."""

from __future__ import annotations

import fnmatch
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def project(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text())


def packages(folder: str) -> set[str]:
    """Every package below a folder of the checkout, by its dotted name."""
    return {
        ".".join(file.parent.relative_to(ROOT).parts)
        for file in (ROOT / folder).rglob("__init__.py")
    }


def test_an_installation_has_neither_the_simulator_nor_the_tests():
    include = project(ROOT)["tool"]["setuptools"]["packages"]["find"]["include"]
    every = {name for folder in ("liqod", "tui", "simulator", "tests") for name in packages(folder)}
    shipped = {name for name in every if any(fnmatch.fnmatch(name, each) for each in include)}
    assert shipped == packages("liqod") | packages("tui")


def test_the_simulator_ships_all_of_its_folders_in_the_version_of_liqod():
    own = project(ROOT / "simulator")
    assert set(own["tool"]["setuptools"]["packages"]) == packages("simulator")
    assert own["project"]["version"] == project(ROOT)["project"]["version"]
