"""Bytecode of an image's modules, made by the image's own Python: another's could differ.

A container's root is read-only, so that there is no other moment to make it. It is used without a
look at the sources, which stay for the lines that tracebacks show.
"""

import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from deploy.archives import Content
from deploy.outcome import Unbuildable

FLAGS: Final = ("-Wignore", "-Xno_debug_ranges")
"""Bytecode says of which line it is, and not of which letters, which would be a quarter of it."""
OPTIONS: Final = ("--invalidation-mode=unchecked-hash", "-qq")


class Compiler:
    """Debian's Python, in a folder, for this machine.

    Args:
        folder: an empty one.
        files: those of the packages that Python is in.
        python: its minor version.
    """

    def __init__(self, folder: Path, files: Iterable[tuple[str, Content]], python: str) -> None:
        self._root = folder
        self._python = python
        for name, content in files:
            place = self._root / name
            place.parent.mkdir(parents=True, exist_ok=True)
            if content.link:
                place.symlink_to(content.data.decode())
            else:
                place.write_bytes(content.data)
                place.chmod(content.mode)

    def compiled(self, files: Mapping[str, Content]) -> dict[str, Content]:
        """Bytecode of those of these files that are modules.

        Raises:
            Unbuildable: this machine does not run that Python.
        """
        sources = {name: x for name, x in files.items() if name.endswith(".py") and not x.link}
        if not sources:
            return {}
        with tempfile.TemporaryDirectory(dir=self._root) as name:
            modules = Path(name)
            for each, content in sources.items():
                (modules / each).parent.mkdir(parents=True, exist_ok=True)
                (modules / each).write_bytes(content.data)
            self._compile(modules, sources)
            # A template is no module, and what is for another Python is not compiled by this one.
            return {
                str(each.relative_to(modules)): Content(each.read_bytes())
                for each in sorted(modules.rglob("*.pyc"))
            }

    def _compile(self, modules: Path, names: Iterable[str]) -> None:
        libraries = next(self._root.glob("usr/lib/*-linux-gnu"))
        loader = next(libraries.glob("ld-linux-*.so.*"))
        program = str(self._root / f"usr/bin/python{self._python}")
        begun = [str(loader), "--library-path", str(libraries), program, "-sS", *FLAGS]
        try:
            done = subprocess.run(
                [*begun, "-m", "compileall", *OPTIONS, f"-s{modules}", "-p/", "-i-"],
                input="".join(f"{modules / name}\n" for name in names),
                text=True,
                # Sets in it are in the order of their hashes.
                env={"PYTHONHOME": str(self._root / "usr"), "PYTHONHASHSEED": "0"},
                capture_output=True,
                check=False,
            )
        except OSError as error:
            raise Unbuildable(f"this machine does not run Debian's Python: {error}") from None
        if done.stderr:
            raise Unbuildable(f"bytecode could not be made: {done.stderr.strip()[-500:]}")
