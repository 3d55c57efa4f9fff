"""Bytecode of an image's modules, made here by this Python in the place of Debian's."""

import marshal
import sys
from pathlib import Path
from types import CodeType

import pytest

from deploy.archives import Content, link, text
from deploy.bytecode import Compiler
from deploy.outcome import Unbuildable

LOADER = "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
STARTS = f'#!/bin/sh\nshift 3; unset PYTHONHOME; exec {sys.executable} "$@"\n'
FAILS = "#!/bin/sh\necho 'no such library' >&2; exit 127\n"


def compiler(folder: Path, loader: str = STARTS) -> Compiler:
    files = {LOADER: text(loader, 0o755), "usr/lib/x86_64-linux-gnu/x": link("y")}
    return Compiler(folder, files.items(), f"{sys.version_info.major}.{sys.version_info.minor}")


def test_a_module_is_compiled_as_it_lies_in_the_image(tmp_path: Path):
    files = {
        "usr/lib/x/a.py": text("import os\n"),
        "usr/lib/x/template.py": text("{{ no module\n"),
        "usr/lib/x/b.txt": text("b"),
        "usr/lib/x/c.py": link("a.py"),
    }
    made = compiler(tmp_path).compiled(files)
    assert made == compiler(tmp_path / "again").compiled(files)
    ((name, content),) = made.items()
    assert name == f"usr/lib/x/__pycache__/a.{sys.implementation.cache_tag}.pyc"
    # Unchecked, by the hash of its source, which is not read then.
    assert content.data[4:8] == b"\x01\0\0\0"
    code = marshal.loads(content.data[16:])
    assert isinstance(code, CodeType)
    assert code.co_filename == "/usr/lib/x/a.py"


def test_nothing_is_run_where_there_are_no_modules(tmp_path: Path):
    assert compiler(tmp_path, FAILS).compiled({"b.txt": Content(b"")}) == {}


def test_a_python_that_does_not_run_here_is_said(tmp_path: Path):
    with pytest.raises(Unbuildable, match="bytecode could not be made: no such library"):
        compiler(tmp_path, FAILS).compiled({"a.py": text("1")})


def test_a_program_for_another_machine_is_said(tmp_path: Path):
    with pytest.raises(Unbuildable, match="does not run Debian's Python"):
        compiler(tmp_path, "no program").compiled({"a.py": text("1")})
