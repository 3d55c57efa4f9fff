"""The wheels that an image has: those that liqod needs, and those that plugins bring."""

import zipfile
from pathlib import Path

import pytest

from deploy import needed
from deploy.outcome import Unbuildable

PYTHON = "3.11"


def write(folder: Path, name: str, *requirements: str) -> Path:
    file = folder / f"{name.replace('-', '_')}-1-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        lines = [f"Requires-Dist: {each}" for each in requirements]
        about = "\n".join(["Metadata-Version: 2.1", f"Name: {name}", *lines]) + "\n\nwords\n"
        archive.writestr(f"{name.replace('-', '_')}-1.dist-info/METADATA", about)
    return file


def test_what_only_a_left_out_one_needs_is_left_out_with_it(tmp_path: Path):
    own = write(tmp_path, "liqod", "a-b>=1", "heavy", 'old; python_version < "3.11"', "more[x]")
    found = [
        write(tmp_path, "a-b", "Shared.Part"),
        write(tmp_path, "heavy", "shared-part", "heavier"),
        write(tmp_path, "heavier"),
        write(tmp_path, "more", 'extra-part; extra == "x"', 'never; extra == "y"', "a-b"),
        write(tmp_path, "extra-part"),
        *(write(tmp_path, each) for each in ("shared-part", "never", "old")),
    ]
    names = [needed.distribution(x) for x in needed.of(own, found, {"heavy"}, PYTHON)]
    assert names == ["a-b", "more", "extra-part", "shared-part"]


def test_a_plugin_whose_requirement_is_nowhere_is_refused(tmp_path: Path):
    plugin, other = write(tmp_path, "gadgets", "liqod", "paint"), write(tmp_path, "paint")
    found = [write(tmp_path, "liqod")]
    with pytest.raises(Unbuildable, match=r"gadgets-1.*\.whl needs paint: name a wheel of that"):
        needed.check([plugin], found, PYTHON)
    needed.check([plugin, other], found, PYTHON)
