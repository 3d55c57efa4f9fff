"""Identity of a provider: known by its authority and its address, not by what it calls itself."""

import dataclasses
from base64 import b64decode
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import CONFIG_MAPS, SECRETS
from liqod.errors import ConfigError
from liqod.identity import certificates
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.procedures import kubeconfigpeering
from liqod.resources import IDENTITIES, RENEWS, TENANTS
from simulator import EmbeddedCluster
from simulator.cluster import State
from tests.simulated.borrower import eventually
from tests.simulated.members import AT_MILAN, AT_ROME, Member, members, served

NAME = "controlplane-milan"


async def shake(rome: Member, provider: Member, **more: Any) -> str:
    """Peers as ``liqod peer`` does, asking for no resources."""
    user = await provider.peering_user(rome)
    async with Client(from_kubeconfig(user)) as remote:
        with trio.fail_after(40):
            return await kubeconfigpeering.peer(
                rome.admin, remote, None, progress=rome.progress, **more
            )


async def given(rome: Member) -> dict[str, Any]:
    """The way into milan that rome goes by."""
    found = await rome.admin.get(IDENTITIES, NAME, AT_ROME)
    return dict(found["spec"]["authParams"])


async def reaches(rome: Member, milan: Member) -> None:
    """Until rome's own daemon reads milan again: its answer to the Renew comes back."""

    async def looked() -> bool:
        peer = rome.components.peers["milan"]
        return bool(peer.link.up and peer.link.probed)

    await eventually(looked, seconds=30)
    assert milan.cluster.server == (await given(rome))["apiServer"]


@pytest.mark.long
@pytest.mark.handshake
async def test_a_cluster_that_takes_anothers_id_is_refused():
    async with members("rome", "milan", "turin") as [rome, milan, turin]:
        await rome.peer(milan)
        before = await given(rome)
        claim = {"data": {labels.CLUSTER_ID_FIELD: "milan"}}
        await turin.admin.patch(CONFIG_MAPS, labels.CLUSTER_ID_CONFIG_MAP, claim, "liqo")
        with pytest.raises(ConfigError, match=r"says that it is milan.*--replace"):
            await shake(rome, turin)
        assert await given(rome) == before
        assert await turin.admin.find(TENANTS, "rome", AT_MILAN) is None
        with pytest.raises(ConfigError, match="to the cluster milan, not to turin"):
            await shake(rome, turin, expected="turin")
        # It is the operator's to say that this is milan now.
        assert await shake(rome, turin, replace=True) == "milan"
        assert (await given(rome))["apiServer"] == turin.cluster.server


@pytest.mark.long
@pytest.mark.handshake
async def test_a_provider_that_gives_anothers_way_in_is_refused():
    """It leads to the place that is known, and tells a consumer to go elsewhere."""
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        before = await given(rome)
        elsewhere = {"status": {"authParams": {"apiServer": "https://elsewhere:6443"}}}
        await milan.stop()
        await milan.admin.patch(TENANTS, "rome", elsewhere, AT_MILAN, subresource="status")
        with pytest.raises(ConfigError, match=r"elsewhere:6443.*milan is known here at"):
            await shake(rome, milan)
        assert await given(rome) == before


async def move(milan: Member) -> None:
    """Another port, for the API server, the administrator and the daemon; nothing else changes."""
    await milan.stop()
    await milan.cluster.stop()
    milan.cluster.port = 0
    await milan.cluster.start()
    milan.admin.renew(from_kubeconfig(milan.cluster.kubeconfig))
    milan.credentials = msgspec.structs.replace(milan.credentials, server=milan.cluster.server)


@pytest.mark.long
@pytest.mark.handshake
async def test_an_api_server_that_moved_is_peered_with_again():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        await rome.until(RENEWS, NAME, AT_ROME, lambda found: found.get("status"))
        await move(milan)
        await milan.start()

        async def told() -> bool:
            found = await milan.admin.get(TENANTS, "rome", AT_MILAN)
            return bool(found["status"]["authParams"]["apiServer"] == milan.cluster.server)

        await eventually(told)
        with pytest.raises(ConfigError, match="--replace"):
            await shake(rome, milan)
        await shake(rome, milan, replace=True)
        await reaches(rome, milan)
        await trio.sleep(1)  # the answer to the Renew of before names the old address
        await reaches(rome, milan)


@pytest.mark.long
@pytest.mark.handshake
async def test_a_provider_that_moves_while_the_old_address_works_is_followed():
    async with members("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        milan.advertise = milan.cluster.server.replace("127.0.0.1", "localhost")
        await milan.stop()
        await milan.start()

        async def followed() -> bool:
            return bool((await given(rome))["apiServer"] == milan.advertise)

        await eventually(followed)
        # To where it does not answer it is not followed.
        milan.advertise = "https://127.0.0.1:1"
        await milan.stop()
        await milan.start()
        await rome.until(
            RENEWS,
            NAME,
            AT_ROME,
            lambda found: found["status"]["authParams"]["apiServer"] == milan.advertise,
        )
        await trio.sleep(0.5)
        assert (await given(rome))["apiServer"].startswith("https://localhost:")


@asynccontextmanager
async def with_another_authority(milan: Member, nursery: trio.Nursery):
    """The same cluster at the same address, all of whose certificates are new."""
    saved = milan.cluster.save()
    await milan.stop()
    await milan.cluster.stop()
    ca = certificates.make_ca("another")
    server = certificates.make_server(ca, ["127.0.0.1", "localhost"])
    state = State(ca, server, saved.secret, saved.version, saved.contents)
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(
            EmbeddedCluster("milan", port=milan.cluster.port, state=state)
        )
        admin = await stack.enter_async_context(Client(from_kubeconfig(cluster.kubeconfig)))
        yield await stack.enter_async_context(served("milan", cluster, admin, nursery))


@pytest.mark.long
@pytest.mark.handshake
async def test_an_authority_that_was_changed_in_place_is_peered_with_again():
    async with members("rome", "milan") as [rome, milan], trio.open_nursery() as nursery:
        await rome.peer(milan)
        kept = (await milan.admin.get(SECRETS, "liqo-remote-certificate", AT_MILAN))["data"]
        async with with_another_authority(milan, nursery) as again:

            async def signed_anew() -> bool:
                found = await again.admin.get(SECRETS, "liqo-remote-certificate", AT_MILAN)
                return bool(found["data"] != kept)

            await eventually(signed_anew)
            with pytest.raises(ConfigError, match=r"authority.*--replace"):
                await shake(rome, again)
            await shake(rome, again, replace=True)
            await reaches(rome, again)
            found = await given(rome)
            assert certificates.is_issued_by(
                b64decode(found["signedCRT"]), again.cluster.ca.certificate
            )
        nursery.cancel_scope.cancel()


@pytest.mark.long
@pytest.mark.handshake
async def test_an_address_inside_its_cluster_is_given_to_nobody():
    async with members("rome", "milan") as [rome, milan]:
        endpoint = dataclasses.replace(milan.context.endpoint, problem="it is inside its cluster")
        object.__setattr__(milan.context, "endpoint", endpoint)
        with pytest.raises(ConfigError, match="milan refuses this cluster: it is inside its clus"):
            await rome.peer(milan)
