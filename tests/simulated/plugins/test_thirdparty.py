"""Somebody else's package, found by its entry point: reflector, discovery and check, end to end."""

import importlib
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from liqod import config
from liqod.apimachinery.kinds import CONFIG_MAPS, CUSTOM_RESOURCES, EVENTS, Kind
from liqod.discovery import configuredpeering
from liqod.discovery.discoverymanager import DiscoveryManager
from liqod.inspect.probing import Reader
from liqod.kube.selection import Selection
from liqod.plugins import loader
from liqod.plugins.diagnosis import ClusterFacts, PeerFacts, ok
from liqod.plugins.host import PluginHost
from liqod.plugins.loader import Plugins
from liqod.telemetry.hub import Hub
from simulator.trial import trial
from tests.simulated.borrower import eventually
from tests.simulated.reflecting import SHOP, THERE, pair

SOURCE = Path(__file__).parents[2] / "thirdparty"
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
def hosts(tmp_path: Path) -> Path:
    """The file that names clusters."""
    path = tmp_path / "hosts.toml"
    path.write_text('milan = ["milan.example:6446"]\n')
    return path


@pytest.fixture
def plugins(tmp_path: Path, hosts: Path) -> Iterator[Plugins]:
    """Loads the plugins with the package installed: the files that an installer would write."""
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
    settings: dict[str, dict[str, Any]] = {
        "gadgets": {"paint": "colours"},
        "gadget-hosts": {"file": str(hosts), "every": 0.05},
    }
    try:
        yield loader.load(settings=settings)
    finally:
        sys.path.remove(str(tmp_path))
        for module in [each for each in sys.modules if each.startswith("liqod_gadgets")]:
            del sys.modules[module]


def test_the_package_is_found_by_its_entry_point(plugins: Plugins) -> None:
    found = [each for each in plugins.records if each.package == "liqod-gadgets"]
    assert [(each.name, each.kind, each.version, each.state) for each in found] == [
        ("gadgets", "reflector", "0.4.0", "active"),
        ("gadget-hosts", "discovery", "0.4.0", "active"),
        ("gadgets", "check", "0.4.0", "active"),
    ]


async def test_its_discovery_is_run_and_peers_with_nobody(
    plugins: Plugins, hosts: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    introduced: list[str] = []

    async def introduce(context: Any, peer: str, path: Path) -> None:
        introduced.append(peer)

    monkeypatch.setattr(configuredpeering, "peer_with", introduce)
    context: Any = SimpleNamespace(
        cluster_id="rome",
        hub=Hub(),
        config=config.parse(""),
        informers=SimpleNamespace(share=None),
        in_cluster=False,
        client=None,
    )
    loaded = msgspec.structs.replace(plugins, discovery=plugins.discovery[1:])
    inbox = DiscoveryManager(context, PluginHost(loaded))
    await nursery.start(inbox.run)

    async def seen() -> bool:
        found = inbox.seen("milan")
        return found is not None and found.addresses() == ("milan.example:6446",)

    async def gone() -> bool:
        return not inbox.book.entries

    await eventually(seen)
    await trio.testing.wait_all_tasks_blocked()
    assert not introduced
    await trio.Path(hosts).write_text("")
    await eventually(gone)
    nursery.cancel_scope.cancel()


async def test_its_check_is_a_layer_of_the_doctor(plugins: Plugins) -> None:
    (check,) = [each for each in plugins.checks if each.name == "gadgets"]
    facts = PeerFacts(now=1.0, peer="milan", cluster=ClusterFacts(now=1.0), lends=True)
    async with pair(plugins=plugins) as both:
        await both.there.create(CUSTOM_RESOURCES, DEFINITION)
        await eventually(lambda: served(both.there))
        assert check.probe is not None
        probed = await check.probe(Reader(both.there, None))
        found = check.look(msgspec.structs.replace(facts, probed=probed))
        assert found == ok("it serves them")


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
            return any(
                each["reason"] == "NoPaint"
                for each in await both.here.list(EVENTS, Selection(SHOP))
            )

        await eventually(warned)
        paint = {"metadata": {"name": "colours"}, "data": {"colour": "red"}}
        await both.here.create(CONFIG_MAPS, paint, SHOP)
        remote_object = await both.comes(GADGETS, "lamp")
        assert remote_object["spec"] == {"size": 2, "colour": "red"}

        # What it read has changed, and it is asked again.
        await both.here.patch(CONFIG_MAPS, "colours", {"data": {"colour": "blue"}}, SHOP)
        await both.comes(GADGETS, "lamp", lambda found: found["spec"]["colour"] == "blue")

        status = {"status": {"lit": True}}
        await both.there.patch(GADGETS, "lamp", status, THERE, subresource="status")
        await both.comes(
            GADGETS,
            "lamp",
            lambda found: found.get("status") == {"lit": True, "at": ["milan"]},
            client=both.here,
            namespace=SHOP,
        )
        await both.here.delete(CONFIG_MAPS, "colours", SHOP)
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


@pytest.mark.long
async def test_the_fixture_that_ships_with_liqod_tries_it_on_two_peers(plugins: Plugins) -> None:
    async with trial(plugins, DEFINITION, peers=("milan", "turin")) as both:
        paint = {"metadata": {"name": "colours"}, "data": {"colour": "red"}}
        await both.here.create(CONFIG_MAPS, paint, both.namespace)
        await both.here.create(GADGETS, {"metadata": {"name": "lamp"}, "spec": {}}, both.namespace)
        for each in (both, *both.others):
            await each.comes(GADGETS, "lamp", lambda found: found["spec"]["colour"] == "red")
            lit = {"status": {"lit": True}}
            await each.there.patch(
                GADGETS, "lamp", lit, each.remote_namespace, subresource="status"
            )
        await both.comes(
            GADGETS,
            "lamp",
            lambda found: found.get("status") == {"lit": True, "at": ["milan", "turin"]},
            client=both.here,
            namespace=both.namespace,
        )
