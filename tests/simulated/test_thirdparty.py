"""A reflector of somebody else's package, found by its entry point, end to end."""

import importlib
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from liqod.kube.kinds import CONFIG_MAPS, CUSTOM_RESOURCES, EVENTS, Kind
from liqod.plugins import loader
from liqod.plugins.loader import Plugins
from tests.simulated.borrower import eventually
from tests.simulated.reflecting import SHOP, THERE, pair

SOURCE = Path(__file__).parents[1] / "thirdparty"
GADGETS = Kind("example.com", "v1", "Gadget", "gadgets")
OPEN: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
DEFINITION = {
    "metadata": {"name": "gadgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {
            "kind": "Gadget",
            "plural": "gadgets",
            "singular": "gadget",
            "listKind": "GadgetList",
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": OPEN},
            }
        ],
    },
}


@pytest.fixture
def plugins(tmp_path: Path) -> Iterator[Plugins]:
    """What is loaded with the package installed: the files that an installer would write."""
    project = tomllib.loads((SOURCE / "pyproject.toml").read_text())["project"]
    shutil.copytree(SOURCE / "liqod_gadgets", tmp_path / "liqod_gadgets")
    info = tmp_path / f"liqod_gadgets-{project['version']}.dist-info"
    info.mkdir()
    name, version = project["name"], project["version"]
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    points = project["entry-points"]["liqod.plugins"]
    lines = [f"{key} = {value}" for key, value in points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[liqod.plugins]", *lines, ""]))
    sys.path.insert(0, str(tmp_path))
    importlib.invalidate_caches()
    try:
        yield loader.load()
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("liqod_gadgets", None)


def test_the_package_is_found_by_its_entry_point(plugins: Plugins) -> None:
    (record,) = [each for each in plugins.records if each.name == "gadgets"]
    assert (record.kind, record.package, record.version, record.state) == (
        "reflector",
        "liqod-gadgets",
        "0.3.0",
        "active",
    )


async def test_its_kind_follows_and_comes_back(plugins: Plugins) -> None:
    async with pair(plugins=plugins) as both, trio.open_nursery() as nursery:
        for client in (both.here, both.there):
            await client.create(CUSTOM_RESOURCES, DEFINITION)
        await eventually(lambda: served(both.here))
        await eventually(lambda: served(both.there))
        await both.start(nursery)
        gadget = {"metadata": {"name": "lamp"}, "spec": {"size": 2}}
        await both.here.create(GADGETS, gadget, SHOP)

        async def warned() -> bool:
            return any(each["reason"] == "NoPaint" for each in await both.here.list(EVENTS, SHOP))

        await eventually(warned)
        paint = {"metadata": {"name": "paint"}, "data": {"colour": "red"}}
        await both.here.create(CONFIG_MAPS, paint, SHOP)
        twin = await both.comes(GADGETS, "lamp")
        assert twin["spec"] == {"size": 2, "colour": "red"}

        # What it read has changed, and it is asked again.
        await both.here.patch(CONFIG_MAPS, "paint", {"data": {"colour": "blue"}}, SHOP)
        await both.comes(GADGETS, "lamp", lambda found: found["spec"]["colour"] == "blue")

        status = {"status": {"lit": True}}
        await both.there.patch(GADGETS, "lamp", status, THERE, subresource="status")
        await both.comes(
            GADGETS,
            "lamp",
            lambda found: found.get("status") == {"lit": True},
            client=both.here,
            namespace=SHOP,
        )
        await both.here.delete(CONFIG_MAPS, "paint", SHOP)
        await both.goes(GADGETS, "lamp")
        nursery.cancel_scope.cancel()


async def test_a_peer_that_does_not_serve_its_kind_holds_nothing_else_up(plugins: Plugins) -> None:
    async with pair(plugins=plugins) as both, trio.open_nursery() as nursery:
        await both.here.create(CUSTOM_RESOURCES, DEFINITION)
        await both.start(nursery)
        await both.here.create(CONFIG_MAPS, {"metadata": {"name": "conf"}}, SHOP)
        await both.comes(CONFIG_MAPS, "conf")
        nursery.cancel_scope.cancel()


async def served(client: Any) -> bool:
    found = await client.get(CUSTOM_RESOURCES, "gadgets.example.com")
    conditions = found.get("status", {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)
