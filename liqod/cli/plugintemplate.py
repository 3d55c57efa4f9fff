"""Templates of plugins: a package of each kind that works, with the contract suite that tries it.

The files are in ``templates/``; ``$name`` and the like in them stand for a plugin's names.
"""

import re
from importlib import resources
from pathlib import Path
from string import Template
from typing import Final

from liqod.errors import Misuse

ABOUT: Final = {
    "reflector": "A reflector",
    "discovery": "A discovery",
    "check": "A check",
    "network": "A tunnel",
}
"""The kinds of plugins, as ``liqod plugins`` calls them, and what a package's description says."""
NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def package(kind: str, name: str) -> dict[str, str]:
    """The files of a package, by their paths in its folder. Raises Misuse."""
    if kind not in ABOUT:
        raise Misuse(f"{kind} is no kind of plugin: there is {', '.join(ABOUT)}")
    if not NAME.fullmatch(name) or len(name) > 40:
        raise Misuse(
            f"{name} is no name of a plugin: small letters, digits and dashes, such as lamps"
        )
    words = _words(kind, name)
    module = words["module"]
    return {
        "pyproject.toml": _filled("pyproject.toml", words),
        f"{module}/__init__.py": _filled(f"{kind}.init", words),
        f"{module}/plugin.py": _filled(f"{kind}.plugin", words),
        f"{module}/py.typed": "",
        f"tests/test_{name.replace('-', '_')}.py": _filled(f"{kind}.test", words),
    }


def write(folder: Path, files: dict[str, str]) -> None:
    """Write a package into a folder of its own.

    Raises:
        Misuse: there is something already, or no folder can be made there.
    """
    try:
        folder.mkdir()
        for name, text in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)
    except FileExistsError as error:
        raise Misuse(f"{folder} is there already: name another folder with --output") from error
    except OSError as error:
        raise Misuse(f"cannot write {folder}: {error.strerror}") from error


def _words(kind: str, name: str) -> dict[str, str]:
    """The names of a plugin that templates put in."""
    parts = name.split("-")
    title = "".join(each.capitalize() for each in parts)
    singular = title.removesuffix("s")
    return {
        "about": ABOUT[kind],
        "name": name,
        "module": f"liqod_{'_'.join(parts)}",
        "title": title,
        "kind": singular,
        "plural": f"{singular.lower()}s",
    }


def _filled(file: str, words: dict[str, str]) -> str:
    found = resources.files("liqod.cli") / "templates" / f"{file}.txt"
    return Template(found.read_text()).substitute(words)
