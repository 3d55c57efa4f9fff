"""The Kubernetes client against a real API server."""

import pytest
import trio

from liqod.apimachinery.kinds import CONFIG_MAPS
from liqod.errors import Unreachable
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import Credentials, from_kubeconfig
from liqod.kube.selection import Selection
from tests.kube_cases import *  # noqa: F403  # the cases
from tests.kube_cases import config_map, until
from tests.testbed.controlplane import ControlPlane

pytestmark = [pytest.mark.cluster, pytest.mark.kubernetes]


def read(plane: ControlPlane) -> Credentials:
    return from_kubeconfig(plane.kubeconfig.read_bytes())


@pytest.fixture
def given(control_plane: ControlPlane) -> Credentials:
    return read(control_plane)


@pytest.fixture
def place(namespace: str) -> str:
    return namespace


async def test_writes_bear_our_name(given: Credentials, place: str) -> None:
    async with Client(given) as client:
        await client.create(CONFIG_MAPS, config_map("named"), place)
        found = await client.get(CONFIG_MAPS, "named", place)
        assert found["metadata"]["managedFields"][0]["manager"] == "liqod"


async def test_an_api_server_that_restarts_and_freezes(new_control_plane) -> None:
    plane = await trio.to_thread.run_sync(new_control_plane, "kube-restart")
    given = read(plane)
    async with Client(given, deadline=2) as client, trio.open_nursery() as nursery:
        informer = SharedInformer(client, CONFIG_MAPS, Selection("default"))
        await nursery.start(informer.run)
        await client.create(CONFIG_MAPS, config_map("kept"), "default")
        await until(lambda: ("default", "kept") in informer.store)

        plane.freeze()
        with pytest.raises(Unreachable, match="within 2 s"):
            await client.get(CONFIG_MAPS, "kept", "default")
        plane.thaw()
        await client.get(CONFIG_MAPS, "kept", "default")

        await trio.to_thread.run_sync(plane.stop, "kube-apiserver")
        with pytest.raises(Unreachable, match="cannot connect"):
            await client.get(CONFIG_MAPS, "kept", "default")
        await until(lambda: informer.problem is not None)
        assert ("default", "kept") in informer.store
        await trio.to_thread.run_sync(plane.start)
        await client.delete(CONFIG_MAPS, "kept", "default")
        await until(lambda: ("default", "kept") not in informer.store, 40)
        assert informer.problem is None
        nursery.cancel_scope.cancel()
