"""The version of the simulator, which is liqod's, and the requirement of just that liqod."""

import re
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent
PACKED = HERE / "PKG-INFO"
"""Of a source distribution, which comes without liqod."""
LIQOD = HERE.parent / "liqod" / "__init__.py"


def version() -> str:
    """The version of the source distribution, or else of the checkout."""
    pattern, place = (
        (r"^Version: (.+)$", PACKED) if PACKED.exists() else (r'^__version__ = "(.+)"$', LIQOD)
    )
    found = re.search(pattern, place.read_text(), re.MULTILINE)
    if found is None:
        raise SystemExit(f"{place} names no version")
    return found[1]


setup(
    # By which setuptools knows this file from the modules beside it, and leaves it out of wheels.
    script_name="setup.py",
    version=version(),
    # The suites for authors of plugins are pytest's.
    install_requires=[f"liqod=={version()}", "pytest>=8.4", "pytest-trio>=0.8"],
)
