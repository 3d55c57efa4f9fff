"""Installations that are broken off and done again, a second one, and those of other versions."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
import pytest

from liqod import install
from liqod.apimachinery import labels
from liqod.apimachinery.kinds import CLUSTER_ROLES, CUSTOM_RESOURCES, RUNTIME_CLASSES, Kind
from liqod.apimachinery.meta import Partial
from liqod.errors import ConfigError, NotFound, Unreachable
from liqod.install import refusals
from liqod.install.manifests import VERSION_ANNOTATION
from liqod.kube.client import Client, Object
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.selection import Selection
from liqod.resources import CRD_REVISION
from simulator import EmbeddedCluster
from tests.simulated.install.test_install import everything, quiet

OPTIONS = install.Options(
    cluster_id="milan", in_cluster=True, storage=True, server="https://milan.example:6443"
)
EACH_TIME = 7
"""Writes after which an installation is broken off: so every kind is the last one once."""
VOLATILE = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")


class Cut(Client):
    """A client that is cut off after some writes."""

    left = EACH_TIME

    def _write(self) -> None:
        if not self.left:
            raise Unreachable("the connection broke")
        self.left -= 1

    async def create(self, kind: Kind, obj: Object, namespace: str | None = None) -> Partial:
        self._write()
        return await super().create(kind, obj, namespace)

    async def patch(
        self,
        kind: Kind,
        name: str,
        patch: Mapping[str, Any] | bytes,
        namespace: str | None = None,
        *,
        subresource: str = "",
    ) -> Partial:
        self._write()
        return await super().patch(kind, name, patch, namespace, subresource=subresource)

    async def delete(self, kind: Kind, name: str, *rest: Any, **more: Any) -> bool:
        self._write()
        return await super().delete(kind, name, *rest, **more)


async def content(client: Client) -> dict[tuple[str, str, str], dict[str, Any]]:
    """The objects of an installation, without what is another in each cluster."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for kind in install.KINDS.values():
        try:
            every = await client.list(kind, Selection(labels=f"{labels.MANAGED_BY_LIQOD}=true"))
        except NotFound:
            continue
        for one in every:
            metadata = {k: v for k, v in one["metadata"].items() if k not in VOLATILE}
            plain = {k: v for k, v in one.items() if k not in ("status", "metadata")}
            key = (kind.name, metadata.get("namespace", ""), metadata["name"])
            found[key] = {**plain, "metadata": metadata}
    return found


async def in_pieces(cluster: EmbeddedCluster, verb: Callable[[Client], Awaitable[object]]) -> int:
    """Do it again and again until it is not broken off; how often that was."""
    for number in range(1, 100):
        async with Cut(from_kubeconfig(cluster.kubeconfig)) as client:
            try:
                await verb(client)
            except Unreachable:
                continue
            return number
    raise AssertionError("it never ends")


async def put_in(client: Client) -> None:
    await install.install(client, OPTIONS, quiet)


async def take_out(client: Client) -> None:
    await install.uninstall(client, "liqo", purge=True, progress=quiet)


@pytest.mark.install
@pytest.mark.long
async def test_what_is_broken_off_and_done_again_comes_to_the_same(cluster, admin):
    await put_in(admin)
    whole = await content(admin)
    async with EmbeddedCluster("milan") as other:
        assert await in_pieces(other, put_in) > 10
        async with Client(from_kubeconfig(other.kubeconfig)) as client:
            assert await content(client) == whole
            # So does an upgrade that is broken off.
            for name in ("liqod-old", "liqod-older"):
                stale = {"metadata": {"name": name, "labels": install.MANAGED}, "rules": []}
                await client.create(CLUSTER_ROLES, stale)
            for key in whole:
                if key[0] in ("ClusterRole", "Role"):
                    kind = install.KINDS[key[0]]
                    await client.patch(kind, key[2], {"rules": None}, key[1] or None)
            await client.delete(RUNTIME_CLASSES, "liqo")
            assert await in_pieces(other, put_in) > 2
            assert await content(client) == whole


@pytest.mark.install
@pytest.mark.long
async def test_an_uninstallation_that_is_broken_off_is_continued(cluster, admin):
    before = await everything(admin)
    await install.install(admin, OPTIONS, quiet)
    assert await in_pieces(cluster, take_out) > 5
    assert await everything(admin) == before


async def newer(admin: Client) -> None:
    """Make of an installation one of a later version, which has more and another shape."""
    await admin.create(
        CLUSTER_ROLES, {"metadata": {"name": "liqod-later", "labels": install.MANAGED}, "rules": []}
    )
    written = {"metadata": {"annotations": {VERSION_ANNOTATION: "99.0.0"}}}
    await admin.patch(CLUSTER_ROLES, "liqod-trust", {**written, "rules": []})
    crd = await admin.get(CUSTOM_RESOURCES, "quotas.offloading.liqo.io")
    spec = crd["spec"]
    schema = spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    schema["later"] = {"type": "string"}
    revision = {"annotations": {labels.CRD_REVISION: str(CRD_REVISION + 1)}}
    await admin.patch(
        CUSTOM_RESOURCES, crd["metadata"]["name"], {"spec": spec, "metadata": revision}
    )


@pytest.mark.install
@pytest.mark.long
async def test_an_older_version_puts_its_own_in_place_and_keeps_what_definitions_gained(admin):
    await install.install(admin, OPTIONS, quiet)
    before = await content(admin)
    await newer(admin)
    await put_in(admin)
    after = await content(admin)
    quotas = ("CustomResourceDefinition", "", "quotas.offloading.liqo.io")
    gained = after.pop(quotas)
    del before[quotas]
    assert after == before
    assert "later" in str(gained["spec"])
    assert gained["metadata"]["annotations"][labels.CRD_REVISION] == str(CRD_REVISION + 1)
    await install.check_revision(admin)


async def test_of_two_installations_at_once_the_second_is_refused_once_the_first_has_begun(
    cluster, admin
):
    elsewhere = msgspec.structs.replace(OPTIONS, namespace="other")
    async with Cut(from_kubeconfig(cluster.kubeconfig)) as client:
        client.left = 60
        with pytest.raises(Unreachable):
            await install.install(client, OPTIONS, quiet)
    before = await content(admin)
    with pytest.raises(refusals.InstallRefused, match="installed in the namespace liqo"):
        await install.install(admin, elsewhere, quiet)
    assert await content(admin) == before
    with pytest.raises(ConfigError, match="cannot become turin"):
        await install.install(admin, msgspec.structs.replace(OPTIONS, cluster_id="turin"), quiet)
    assert await content(admin) == before
