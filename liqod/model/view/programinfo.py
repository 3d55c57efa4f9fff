"""The program as it is installed and runs, in the form in which it is shown. Pure."""

from typing import Literal

import msgspec

Origin = Literal["checkout", "folder", "file", "index", "source"]


class ProgramInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The versions of a running program and of its parts.

    Attributes:
        version: liqod's.
        python: of the interpreter.
        kernel: its name and release.
        machine: its architecture, such as ``x86_64``.
        system: name of the distribution; empty where it has none.
        dependencies: the version of each distribution that it needs; empty for one that is missing.
        origin: the source of its installation: a checkout that it runs from (``pip install -e``),
            a folder, the file of a wheel, or an index of packages; ``source`` where it was not
            installed.
        unit: systemd's unit of this process; empty where it is none.
        container: this process is in a container.
    """

    version: str
    python: str
    kernel: str
    machine: str
    system: str = ""
    dependencies: dict[str, str] = {}
    origin: Origin = "source"
    unit: str = ""
    container: bool = False
