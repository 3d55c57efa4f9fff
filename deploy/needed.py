"""The wheels that a wheel needs, by what each says of itself."""

import email
import re
import zipfile
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from packaging.requirements import Requirement

from deploy.outcome import Unbuildable


def of(own: Path, found: Sequence[Path], without: AbstractSet[str], python: str) -> list[Path]:
    """Those of the wheels that one needs, directly or not, in their order.

    Args:
        own: the one that needs.
        found: the wheels that there are.
        without: those that are left out, with all that only they need.
        python: the minor version of Python.
    """
    there = {name: x for x in found if (name := distribution(x)) not in without}
    wanted: set[tuple[str, str]] = set()
    waiting = _requirements(own, python, "")
    while waiting:
        each = waiting.pop()
        if each not in wanted and each[0] in there:
            wanted.add(each)
            waiting += _requirements(there[each[0]], python, each[1])
    names = {name for name, _ in wanted}
    return [each for name, each in there.items() if name in names]


def check(plugins: Sequence[Path], found: Iterable[Path], python: str) -> None:
    """See whether what plugins need is there.

    Raises:
        Unbuildable: a file is missing or no wheel, or it needs one that is not there.
    """
    there = {distribution(each) for each in (*found, *plugins)}
    for each in plugins:
        if each.suffix != ".whl" or not each.is_file():
            raise Unbuildable(f"there is no wheel {each}: build or download it, and name its file")
        for name, _ in _requirements(each, python, ""):
            if name not in there:
                raise Unbuildable(f"{each.name} needs {name}: name a wheel of that, too")


def distribution(wheel: Path) -> str:
    """The name of a wheel's distribution, as it is compared."""
    return _plain(wheel.name.split("-")[0])


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _requirements(wheel: Path, python: str, extra: str) -> list[tuple[str, str]]:
    """What a wheel needs: each distribution, and again with each extra that is wanted of it."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (x for x in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", x))
        about = email.message_from_bytes(archive.read(name))
    place = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "os_name": "posix",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "extra": extra,
    }
    asked = [Requirement(each) for each in about.get_all("Requires-Dist", [])]
    asked = [each for each in asked if each.marker is None or each.marker.evaluate(place)]
    return [(_plain(each.name), more) for each in asked for more in ("", *sorted(each.extras))]
