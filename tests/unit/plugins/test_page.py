"""The package on the pages of plugins, as it stands there, passes the tests there, too."""

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from liqod.plugins.contracts import CONFIG_MAPS, Kind
from liqod.plugins.diagnosis import ClusterFacts, PeerFacts
from liqod.plugins.providers import Sighting

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"
PAGES = [REFERENCE / f"{each}.md" for each in ("plugins", "reflectors", "plugin-tests")]
BLOCKS = [
    block for page in PAGES for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
]
PARTS = {
    found[1]: block
    for block in BLOCKS
    if (found := re.match(r"# (liqod_gadgets/[a-z_]+\.py)\n", block))
}
(SUITE,) = (block for block in BLOCKS if "(DiscoveryContract)" in block)


def loaded(part: str) -> ModuleType:
    """One module of the package, as the page has it."""
    name = f"of_the_page_{Path(part).stem}"
    made = ModuleType(name)
    sys.modules[name] = made  # where msgspec looks for the annotations of structs
    exec(compile(PARTS[part], f"page: {part}", "exec"), vars(made))
    return made


HOSTS, CHECK, REFLECTOR = (
    loaded(f"liqod_gadgets/{part}.py") for part in ("hosts", "check", "reflector")
)


def manifest(kind: Kind, name: str, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}"},
        **more,
    }


KIND: Kind = REFLECTOR.GADGETS
REMOTE = manifest(KIND, "lamp", spec={"size": 2, "colour": "red"}, status={"lit": True})
GIVEN: dict[str, Any] = {
    "Path": Path,
    "Sighting": Sighting,
    "ClusterFacts": ClusterFacts,
    "PeerFacts": PeerFacts,
    "HOSTS": HOSTS.HOSTS,
    "CHECK": CHECK.CHECK,
    "REFLECTOR": REFLECTOR.REFLECTOR,
    "LAMP": manifest(KIND, "lamp", spec={"size": 2}),
    "PAINT": manifest(CONFIG_MAPS, "paint", data={"colour": "red"}),
    "REMOTE": REMOTE,
    "DARK": {**REMOTE, "status": {"lit": False}},
    "__name__": __name__,
}
exec(compile(SUITE, "page: its tests", "exec"), GIVEN)
TestGadgets, TestCheck = GIVEN["TestGadgets"], GIVEN["TestCheck"]


Hosts: Any = GIVEN["TestHosts"]


class TestHosts(Hosts):  # type: ignore[misc]  # of a page
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        Path("hosts.toml").write_text('milan = ["milan.example:6446"]\n')


def test_the_discovery_is_short():
    _, *lines = filter(str.strip, PARTS["liqod_gadgets/hosts.py"].splitlines())
    assert len(lines) <= 22
