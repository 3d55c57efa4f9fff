"""What an image leaves out of packages, and that nothing misses it."""

import ctypes
import importlib.util
import shutil
import sysconfig
from pathlib import Path

import httptools

from deploy import prune
from deploy.archives import Content, text

SITE = "usr/lib/liqod/lib/python3.11/site-packages"


def _file(module: str) -> Path:
    """The file of an installed module."""
    spec = importlib.util.find_spec(module)
    assert spec is not None
    return Path(spec.origin or "")


def kept(*names: str) -> list[str]:
    return [name for name, _ in prune.kept((each, text("")) for each in names)]


def test_licences_stay_and_other_documents_do_not():
    documents = ("copyright", "changelog.gz", "examples/copyright.txt")
    assert kept(*(f"usr/share/doc/x/{each}" for each in documents)) == ["usr/share/doc/x/copyright"]


def test_what_modules_are_compiled_from_goes_and_modules_stay():
    names = [f"{SITE}/x/{each}" for each in ("a.py", "a.pyi", "a.pyx", "a.c", "a.so", "c/d.py")]
    assert kept(*names) == [names[0], names[4], names[5]]
    # pyroute2 imports it, whatever of it is used.
    assert kept("usr/lib/python3.11/sqlite3/__init__.py")
    assert kept("usr/lib/python3.11/tarfile.py", "usr/lib/python3.11/test/x.py") == [
        "usr/lib/python3.11/tarfile.py"
    ]


def test_pygments_knows_the_lexers_that_are_there_and_no_others():
    mapping = _file("pygments.lexers._mapping")
    place = f"{SITE}/pygments/lexers"
    named = [f"{place}/{name}.py" for name in ("_mapping", "python", "data", "_csound_builtins")]
    files = [(named[0], Content(mapping.read_bytes())), *((each, text("")) for each in named[1:])]
    found = dict(prune.kept(files))
    assert list(found) == named[:2]
    told: dict[str, dict[str, tuple[str, ...]]] = {}
    exec(found[named[0]].data, told)
    modules = {module for module, *_ in told["LEXERS"].values()}
    assert modules == {"pygments.lexers.python", "pygments.lexers.special"}
    assert "PythonLexer" in told["LEXERS"]


def test_a_library_without_its_symbols_is_loaded_and_does_the_same(tmp_path: Path):
    whole = _file("httptools.parser.parser")
    data = prune.strip(whole.read_bytes())
    assert len(data) < whole.stat().st_size
    file = tmp_path / f"parser{sysconfig.get_config_var('EXT_SUFFIX')}"
    file.write_bytes(data)
    ctypes.CDLL(str(file))
    spec = importlib.util.spec_from_file_location("httptools.parser.parser", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.HttpRequestParser is not httptools.HttpRequestParser


def test_only_libraries_of_wheels_are_stripped():
    program = Content(Path(shutil.which("true") or "").read_bytes())
    ((_, system),) = prune.kept([("usr/bin/true", program)])
    ((_, ours),) = prune.kept([(f"{SITE}/x.so", program)])
    assert system == program
    assert len(ours.data) < len(program.data)
