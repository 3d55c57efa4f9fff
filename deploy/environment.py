"""liqod's Python environment as packages and images hold it: modules of wheels, and programs."""

import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from deploy.archives import Content, link, text

HOME: Final = "usr/lib/liqod"
"""Where Python finds itself with the packages and no others: an environment of Python's."""
PROGRAMS: Final[Mapping[str, tuple[str, str]]] = {
    "liqod": ("liqod.__main__", "main"),
    "kubectl-liqod": ("liqod.__main__", "main"),
    "kubectl_complete-liqod": ("liqod.cli.completion", "kubectl"),
}
"""The module and the function of each."""

Named = Iterator[tuple[str, Content]]


def site(python: str) -> str:
    """The folder of the packages, for a minor version of Python."""
    return f"{HOME}/lib/python{python}/site-packages"


def marks(python: str) -> Named:
    """The files that make Python take the folder for its environment."""
    told = f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {python}\n"
    yield f"{HOME}/pyvenv.cfg", text(told)
    yield f"{HOME}/bin/python3", link("../../../bin/python3")


def unpacked(wheel: Path, python: str) -> Named:
    """The modules of a wheel, without its tests."""
    place = site(python)
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            top, _, rest = name.partition("/")
            if name.endswith("/") or "tests" in Path(name).parts:
                continue
            if not top.endswith(".data"):
                yield f"{place}/{name}", Content(archive.read(name))
            elif rest.startswith(("purelib/", "platlib/")):
                yield f"{place}/{rest.partition('/')[2]}", Content(archive.read(name))


def programs() -> Named:
    """The programs, and the links by which a shell finds them."""
    for name, (module, function) in PROGRAMS.items():
        words = f"#!/{HOME}/bin/python3 -I\nimport sys\n\nfrom {module} import {function}\n\n"
        yield f"{HOME}/bin/{name}", text(f"{words}sys.exit({function}())\n", 0o755)
        yield f"usr/bin/{name}", link(f"../lib/liqod/bin/{name}")
